"""The prompts of the holdout and of suites, as in the evaluation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.evals.chat_prompts import ChatPrompts, question
from ft_assets.workers.evals.holdout_rows import answer_place, choose, read_records
from ft_assets.workers.suites.kinds.registry import kind_of
from ft_assets.workers.suites.safety_suite import KINDS, SAFETY
from ft_assets.workers.suites.suite_task import SuiteTask
from ft_assets.workers.suites.suites import TASK_FILE, read_task, safety_prompts, suite_files
from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

PROMPTS = 50
Render = Callable[[Messages], Sequence[int]]
"""Token ids of a conversation, as the router sends them to the server."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What was evaluated, and how.

    Args:
        base, adapter: their folders.
        chat_template: Jinja text of the recipe; None for the base's own template.
        holdout: the dataset's split.
        form: the form of its rows.
        suites: folders by key.
        scores: the evaluation's score of each item, by suite and item id, for suites with right answers.
        seed: chooses rows of the holdout.
        max_new_tokens: longest answer.
    """

    base: Path
    adapter: Path
    chat_template: str | None
    holdout: Path
    form: FormName = "chat"
    suites: Mapping[str, Path] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    seed: int = 17
    max_new_tokens: int = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One prompt: ``ids`` are the token ids in the evaluation, ``where`` names it in messages."""

    where: str
    messages: Messages
    ids: Sequence[int]


class AskedPrompts:
    """The prompts for ``evaluated``; ``ends`` are the ids that end an answer besides the model's own."""

    def __init__(self, evaluated: Evaluated) -> None:
        self._evaluated = evaluated
        self._chat = ChatPrompts(evaluated.base, ChatTokenizer.load(evaluated.base), evaluated.chat_template)
        self.ends = self._chat.end_ids

    def read(self, count: int, longest: int) -> list[Prompt]:
        """At most ``count`` prompts of at most ``longest`` tokens, from the holdout and each suite in turn.

        Suites without a chat template are left out, and so is a holdout of plain texts. Raises BadData if the template
        refuses a prompt.
        """
        sources = [self._holdout(count), *(self._suite(key, count) for key in sorted(self._evaluated.suites))]
        turns = (each for turn in zip_longest(*sources) for each in turn if each is not None)
        fitting = (prompt for prompt in turns if len(prompt.ids) <= longest)
        return list(islice(fitting, count))

    def _holdout(self, count: int) -> Iterator[Prompt]:
        form = self._evaluated.form
        if FORMS[form].plain:
            return
        for record in choose(read_records(self._evaluated.holdout, form), count, self._evaluated.seed):
            messages: Messages = record["messages"]
            yield self._prompt(f"holdout, row {record['row']}", messages[: answer_place(messages)])

    def _suite(self, key: str, count: int) -> Iterator[Prompt]:
        system_prompt, texts = _asked(self._evaluated.suites[key], key)
        for number, text in enumerate(texts[:count], start=1):
            yield self._prompt(f"suite {key}, item {number}", question(text, system_prompt))

    def _prompt(self, where: str, messages: Messages) -> Prompt:
        return Prompt(where=where, messages=messages, ids=self._chat.prompt(messages, where))


def _asked(folder: Path, key: str) -> tuple[str | None, Sequence[str]]:
    """System prompt and prompts of a suite; no prompts if it does not use the chat template."""
    task = read_task(folder / TASK_FILE)
    if isinstance(task, SuiteTask):
        return None, ()
    if getattr(task, "kind", None) == SAFETY:
        safety, prompts = safety_prompts(folder)
        return safety.system_prompt, [prompt.text for kind in KINDS for prompt in prompts[kind]]
    kind = kind_of(task)
    if not kind.chat:
        return None, ()
    where = f"suite {key}"
    try:
        kind.score(task, kind.read(task, suite_files(folder), where), _Recorder(where))
    except _Stop as stop:
        return stop.system_prompt, stop.prompts
    return None, ()


class _Stop(Exception):
    def __init__(self, prompts: Sequence[str], system_prompt: str | None) -> None:
        self.prompts, self.system_prompt = prompts, system_prompt
        super().__init__()


@dataclass(frozen=True, slots=True)
class _Recorder:
    """In place of a model: raises the suite's prompts as ``_Stop``, which ends the scoring."""

    where: str
    report: Callable[[int, int], None] = lambda done, total: None

    def answer_prompts(
        self, prompts: Sequence[str], *, system_prompt: str | None, max_new_tokens: int
    ) -> dict[int, str]:
        raise _Stop(prompts, system_prompt)

    def continue_texts(self, texts: Sequence[str], **settings: Any) -> list[str]:
        raise _Stop((), None)
