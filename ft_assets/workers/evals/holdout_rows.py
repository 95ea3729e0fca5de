"""The rows of a holdout, encoded by the token pack's own code (``workers.packs``), so that the two cannot differ.

chat         scored: the assistant's messages; asked for: the last of them
preference   the same for the prompt with the chosen answer, with only the answer scored; likewise the rejected answer
text         scored: the text, up to the model's context length; no answer is asked for
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.datasets.forms.turns import to_messages
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.packs.documents.prepare import tracer_of
from ft_assets.workers.packs.documents.texts import TextLabeller
from ft_assets.workers.templates.outputs import Output
from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.templates.thoughts import answer_of
from ft_assets.workers.tokenizers.choice import open_encoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadData

Split = Literal["train", "holdout"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Token ids of a whole conversation or text, whether each is learned, and whether each belongs to an answer.

    Of what is learned, thoughts and what the template puts around an answer belong to none, unless there is no answer.
    """

    ids: list[int]
    learned: list[bool]
    answers: list[bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldoutRow(Encoded):
    """One encoded row.

    Args:
        prompt: token ids up to and including the last answer's generation prompt; empty if no answer is asked for.
        question: text of the message before the last answer, for the report page.
        target: the last answer's text, trimmed and without thoughts.
        taught: what training teaches for the last turn, as it is read from a model's output; its answer may differ from
            the target by what the template does to it, above all to calls of tools.
        rejected: for preference data, the prompt with the rejected answer.
    """

    id: str
    kind: str
    prompt: list[int]
    question: str
    target: str
    taught: Output | None = None
    rejected: Encoded | None = None

    @property
    def longest(self) -> int:
        """Tokens of the longest scored sequence."""
        return max(len(self.ids), len(self.rejected.ids) if self.rejected else 0)


class ChatRows:
    """Conversations; for preference data, with the chosen answer (see ``read_records``).

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.
    """

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self._prompts = ChatPrompts(folder, tokenizer, chat_template)
        template, self.chat = self._prompts.template, self._prompts
        self._tracer = tracer_of(template, tokenizer, "all_assistant")

    def encode(self, record: dict[str, Any]) -> HoldoutRow:
        """Raises BadData, naming the row, if it cannot be scored."""
        messages: Messages = record["messages"]
        where = _where(record)
        last = answer_place(messages)
        before = self._prompts.prompt(messages[:last], where, record.get("tools"))
        whole = self._scored(messages, record, where)
        rejected = record.get("rejected")
        return HoldoutRow(
            id=record["id"],
            kind=record["kind"],
            ids=whole.ids,
            learned=whole.learned,
            answers=whole.answers,
            prompt=before,
            question=question_of(messages),
            target=target_of(messages),
            taught=self._taught(whole),
            rejected=self._scored(rejected, record, where) if rejected is not None else None,
        )

    def _taught(self, whole: Encoded) -> Output:
        """The output that training teaches for the last turn, as it is read from a model."""
        end = len(whole.learned) - whole.learned[::-1].index(True)
        start = end - next((n for n, learned in enumerate(whole.learned[:end][::-1]) if not learned), end)
        while end > start and whole.ids[end - 1] in self._prompts.end_ids:
            end -= 1
        return self._prompts.outputs.read(whole.ids[:start], whole.ids[start:end])

    def _scored(self, messages: Messages, record: dict[str, Any], where: str) -> Encoded:
        """A conversation in which the assistant's messages after the prompt's are scored."""
        traced = self._tracer.trace(messages, where=where, tools=record.get("tools"), prompt=record["prompt"])
        whole = self._tokenizer.encode(traced.rendering, traced.learned)
        text, outputs = traced.rendering.text, self._prompts.outputs
        begins = [outputs.answer_start(text[:start], text[start:end]) for start, end in traced.learned]
        answers = [(start + begin, end) for (start, end), begin in zip(traced.learned, begins, strict=True)]
        of_answers = self._tokenizer.encode(traced.rendering, answers).learned if any(begins) else whole.learned
        if not of_answers[1:].any():
            # Thoughts that were cut are all that such a row teaches.
            of_answers = whole.learned
        if not of_answers[1:].any():
            raise BadData(
                "this row has nothing to score: the template renders no assistant text",
                where=where,
                remedy="Give the conversation an assistant message, or correct the recipe's chat_template.",
            )
        return Encoded(ids=whole.ids.tolist(), learned=whole.learned.tolist(), answers=of_answers.tolist())


class TextRows:
    """Plain texts, each cut to its first ``most`` tokens."""

    chat = None

    def __init__(self, tokenizer: ChatTokenizer, most: int) -> None:
        self._labeller, self._most = TextLabeller(tokenizer, open_encoder(tokenizer, "tokenizers")), most

    def encode(self, record: dict[str, Any]) -> HoldoutRow:
        """Raises BadData, naming the row, for an empty text."""
        tokens = self._labeller.label([record["text"]], lambda _: _where(record))
        return HoldoutRow(
            id=record["id"],
            kind=record["kind"],
            ids=tokens.ids[: self._most].tolist(),
            learned=tokens.learned[: self._most].tolist(),
            answers=tokens.learned[: self._most].tolist(),
            prompt=[],
            question="",
            target="",
        )


def form_of(dataset: Artifact) -> FormName:
    """The form of a dataset's rows."""
    form: FormName = dataset.facts.get("form", "chat")
    return form


def read_split(dataset: Artifact, split: Split, scratch: Path) -> Iterator[dict[str, Any]]:
    """The rows of ``dataset``'s split; see ``read_records``."""
    return read_records(dataset.path(f"{split}.parquet", scratch), form_of(dataset))


def read_records(path: Path, form: FormName = "chat") -> Iterator[dict[str, Any]]:
    """The rows of a dataset split: ``id``, ``kind``, ``row`` and ``text``, or ``messages``, ``tools`` and ``prompt``.

    For chat, ``messages`` are all messages; for preference data, the prompt's and the chosen answer's, where ``prompt``
    is the number of the former. Preference data also have ``rejected``: the prompt's messages and the rejected
    answer's.
    """
    import pyarrow.parquet as pq

    kind = FORMS[form]
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=512, columns=["id", "kind", "row", "tools", *kind.columns]):
            for row in batch.to_pylist():
                row["tools"] = json.loads(row["tools"]) if row.get("tools") else None
                if kind.plain:
                    yield row
                    continue
                if not kind.answers:
                    yield {**row, "messages": to_messages(row["messages"]), "prompt": 0}
                    continue
                before, chosen, rejected = row["messages"], row.pop("chosen"), row.pop("rejected")
                if kind.answers == 1:
                    # A model should not predict what people rejected.
                    if chosen:
                        yield {**row, "messages": to_messages([*before, *chosen]), "prompt": len(before)}
                    continue
                answers = {"messages": to_messages([*before, *chosen]), "rejected": to_messages([*before, *rejected])}
                yield {**row, **answers, "prompt": len(before)}


def choose(records: Iterator[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """The ``count`` records with the smallest seeded hash of their id, in that order."""

    def rank(record: dict[str, Any]) -> str:
        return hashlib.sha256(f"{seed}:{record['id']}".encode()).hexdigest()

    return sorted(records, key=rank)[:count]


def answer_place(messages: Messages) -> int:
    """Index of the last assistant message. Raises BadData if there is none."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "assistant":
            return place
    raise BadData("a row has no assistant message", where="holdout", remedy="Give each row an answer.")


def question_of(messages: Messages) -> str:
    """The text of the message before the last answer; "" if no message precedes it."""
    place = answer_place(messages)
    return str(messages[place - 1]["content"]) if place else ""


def turns_before_question(messages: Messages) -> tuple[tuple[str, str], ...]:
    """Role and text of each message before the question."""
    earlier = messages[: max(0, answer_place(messages) - 1)]
    return tuple((str(each["role"]), str(each.get("content") or "")) for each in earlier)


def target_of(messages: Messages) -> str:
    """The last answer, trimmed and without thoughts; calls of tools as JSON, one in a line."""
    message = messages[answer_place(messages)]
    said = str(message.get("content") or "")
    calls = (json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or ())
    return "\n".join(part for part in (answer_of(said), *calls) if part)


def _where(record: dict[str, Any]) -> str:
    return f"row {record['row']} of the upload"
