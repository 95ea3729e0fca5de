"""Ask a model through the chat template, as a server does, and collect its greedy answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.workers.evals.chat_prompts import ChatPrompts, question
from ft_assets.workers.evals.generation import write_answers
from ft_assets.workers.evals.model import LoadedModel
from ft_assets.workers.evals.stop_sequences import continue_texts
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadRecipe, UserError

Report = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """How a conversation is rendered: by the template in the base's ``folder``, or by the recipe's ``template``."""

    folder: Path
    template: str | None

    def of_tasks(self) -> ChatPrompts | None:
        """How lm-eval's tasks with written answers are asked; None for a base that has no template of its own, which
        continues texts."""
        if own_template(self.folder) is None:
            return None
        return ChatPrompts(self.folder, ChatTokenizer.load(self.folder), self.template)

    def answers(
        self,
        loaded: LoadedModel,
        prompts: Sequence[tuple[str, str]],
        *,
        system_prompt: str | None,
        max_new_tokens: int,
        report: Report,
    ) -> dict[int, str]:
        """The model's answers to ``prompts`` (name for messages, text), by index.

        All get the same room for an answer, as a truncated answer could look like a failure or hide one; a prompt
        without that room gets none. Raises BadData if the template refuses a prompt.
        """
        chat = ChatPrompts(self.folder, ChatTokenizer.load(self.folder), self.template)
        ids = [chat.prompt(question(text, system_prompt), where) for where, text in prompts]
        fitting = [place for place, each in enumerate(ids) if len(each) + max_new_tokens <= loaded.context_length]
        answers: dict[int, str] = {}
        asked = [ids[place] for place in fitting]
        for number, output, _ in write_answers(loaded, chat, asked, max_new_tokens):
            answers[fitting[number]] = output.answer
            report(len(answers), len(fitting))
        return answers


def no_room(what: str, loaded: LoadedModel, max_new_tokens: int, where: str) -> BadRecipe:
    """The error for prompts of which none fits into the model's context with an answer."""
    return BadRecipe(
        f"all {what} are longer than the {max(0, loaded.context_length - max_new_tokens)} tokens of the base's context "
        "that the answer leaves",
        where=where,
        remedy="Use a suite with shorter prompts or a smaller max_new_tokens.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AskModel:
    """A loaded model with the interface that suite kinds ask it through: see ``suites.kinds.asking.Asking``."""

    loaded: LoadedModel
    chat: Chat | None
    where: str
    report: Report

    def answer_prompts(
        self, prompts: Sequence[str], *, system_prompt: str | None, max_new_tokens: int
    ) -> dict[int, str]:
        """Greedy answers through the chat template. Raises BadRecipe, BadData, and UserError without a template."""
        if self.chat is None:
            raise UserError(
                "this suite needs a chat template and none was given",
                where=self.where,
                remedy="Score it in a baseline_report or eval_report.",
            )
        answers = self.chat.answers(
            self.loaded,
            [(f"{self.where}, item {number}", text) for number, text in enumerate(prompts, start=1)],
            system_prompt=system_prompt,
            max_new_tokens=max_new_tokens,
            report=self.report,
        )
        if not answers:
            raise no_room(f"{len(prompts)} prompts", self.loaded, max_new_tokens, self.where)
        return answers

    def continue_texts(
        self, texts: Sequence[str], *, until: Sequence[str], max_new_tokens: int, report: Report
    ) -> list[str]:
        """Greedy continuations, without the stop text. Raises BadRecipe if questions do not fit into the context."""
        return continue_texts(
            self.loaded,
            texts,
            lambda text: list(self.loaded.tokenizer(text)["input_ids"]),
            until=until,
            max_new_tokens=max_new_tokens,
            report=report,
        )
