"""Rows of the holdout on which a quantised model is compared with the merged one, and with what serves it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.holdout_rows import (
    ChatRows,
    Encoded,
    TextRows,
    answer_place,
    choose,
    form_of,
    read_split,
)
from ft_assets.workers.exports.gguf_equality import Rows
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.worker_context import WorkContext

ROWS = 8
_TOKENS, _PLACES = 256, 4
"""Tokens of each row from its start, and places in them whose next token is compared."""
_SEED = 17


@dataclass(frozen=True, kw_only=True)
class HoldoutTexts:
    """Rows of the holdout: as token ids with places in them, as conversations with the ids of their prompts, and as
    plain text."""

    places: Rows
    asked: Sequence[tuple[Any, list[int]]]
    plain: Sequence[str]

    @classmethod
    def read(cls, context: WorkContext, model: Path) -> "HoldoutTexts":
        dataset = unchanged_input(context, "dataset")
        records = choose(read_split(dataset, "holdout", context.scratch), ROWS, _SEED)
        tokenizer = ChatTokenizer.load(model)
        if FORMS[form_of(dataset)].plain:
            rows = TextRows(tokenizer, _TOKENS)
            found = [_places(rows.encode(each)) for each in records]
            return cls(places=found, asked=[], plain=[str(each["text"]) for each in records])
        chats, prompts = ChatRows(model, tokenizer, None), ChatPrompts(model, tokenizer, None)
        before = [each["messages"][: answer_place(each["messages"])] for each in records]
        return cls(
            places=[_places(chats.encode(each)) for each in records],
            asked=[(each, prompts.prompt(each, "holdout")) for each in before if _is_plain(each)],
            plain=[str(message["content"]) for each in records for message in each["messages"]],
        )


def _is_plain(messages: Sequence[Any]) -> bool:
    """Whether these are turns of text only: servers take tools in other words than ours."""
    return all(message["role"] in ("system", "user", "assistant") and message["content"] for message in messages)


def _places(row: Encoded) -> tuple[list[int], list[int]]:
    """The row's first tokens, and some of the places among them whose token training learns."""
    ids = row.ids[:_TOKENS]
    learned = [place for place in range(1, len(ids)) if row.learned[place]] or [len(ids) - 1]
    step = max(1, len(learned) // _PLACES)
    return ids, learned[::step][:_PLACES]
