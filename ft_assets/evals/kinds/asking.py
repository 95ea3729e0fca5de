"""Ask a model through the chat template, as a server does, and collect its greedy answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ft_resources.errors import BadRecipe, UserError

if TYPE_CHECKING:
    from ft_assets.evals.model import LoadedModel


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """How a conversation is shown: by the template in the base's ``folder``, or by ``template``, the recipe's."""

    folder: Path
    template: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """Whom to ask and how. ``where`` names the suite; ``report`` is called with (answers there, answers in all)."""

    loaded: "LoadedModel"
    chat: Chat | None
    where: str
    report: Callable[[int, int], None]


def answer_prompts(
    asking: Asking, prompts: Sequence[str], *, system_prompt: str | None, max_new_tokens: int
) -> dict[int, str]:
    """Greedy answers by the prompts' places, trimmed. Prompts that leave no room for the whole answer have none.

    Raises BadRecipe where no prompt fits into the model's context, BadData where the template refuses one.
    """
    # Suites are registered without any of this.
    from ft_assets.evals.generation import batches, end_ids, generate
    from ft_assets.evals.holdout_rows import ChatRows
    from ft_assets.packs.encoding.tokenizer import ChatTokenizer

    if asking.chat is None:
        raise UserError(
            "this suite asks through a chat template and none was given",
            where=asking.where,
            remedy="Score it in a baseline_report or eval_report.",
        )
    loaded = asking.loaded
    tokenizer = ChatTokenizer.load(asking.chat.folder)
    rows = ChatRows(asking.chat.folder, tokenizer, asking.chat.template)
    before = [{"role": "system", "content": system_prompt}] if system_prompt is not None else []
    ids = [
        rows.prompt([*before, {"role": "user", "content": text}], f"{asking.where}, item {number}")
        for number, text in enumerate(prompts, start=1)
    ]
    # The room for an answer is the same for all: what is cut short could look like a failure, or hide one.
    fitting = [place for place, each in enumerate(ids) if len(each) + max_new_tokens <= loaded.context_length]
    if not fitting:
        raise BadRecipe(
            f"all {len(prompts)} prompts are longer than the {max(0, loaded.context_length - max_new_tokens)} tokens "
            "of the base's context that the answer leaves",
            where=asking.where,
            remedy="Use a suite with shorter prompts or a smaller max_new_tokens.",
        )
    ends = end_ids(loaded.model, tokenizer, rows.ends)
    answers: dict[int, str] = {}
    for batch in batches([len(ids[place]) + max_new_tokens for place in fitting]):
        places = [fitting[each] for each in batch]
        for place, new in zip(
            places, generate(loaded, [ids[each] for each in places], max_new_tokens, ends), strict=True
        ):
            answers[place] = tokenizer.tokenizer.decode(new, skip_special_tokens=True).strip()
        asking.report(len(answers), len(fitting))
    return answers
