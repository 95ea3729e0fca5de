"""The rows of a holdout, encoded as the token pack encodes them (``ft_assets.packs``), so that both cannot differ.

chat         scored is what the assistant says; asked for is its last answer
preference   the same of the prompt with the chosen answer, where only the answer is scored; and so is the rejected one
text         scored is the text, as far as the model's context goes; nothing is asked
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.documents.texts import TextLabeller
from ft_assets.packs.encoding.choice import open_encoder
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.format.layout import Form
from ft_assets.packs.templates.template import Messages, Rendering
from ft_assets.packs.templates.tracing import Tracer
from ft_assets.packs.templates.variants import load_template, training_variant
from ft_resources.errors import BadData


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Token ids of a whole conversation or text, and for each whether it is scored."""

    ids: list[int]
    learned: list[bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldoutRow(Encoded):
    """One encoded row.

    Args:
        prompt: token ids up to and with the generation prompt of the last answer; none where nothing is asked.
        question: text of the message before the last answer, for the report page.
        target: the last answer's text, trimmed.
        rejected: of preference data, the prompt with the rejected answer.
    """

    id: str
    kind: str
    prompt: list[int]
    question: str
    target: str
    rejected: Encoded | None = None

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is scored."""
        return max(len(self.ids), len(self.rejected.ids) if self.rejected else 0)


class ChatRows:
    """Conversations, those of preference data with the chosen answer (see ``read_records``).

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.
    """

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, chat_template: str | None) -> None:
        self._tokenizer = tokenizer
        self._template = load_template(folder, tokenizer, chat_template)
        self.ends = self._template.end_of_turn()
        self._tracer = Tracer(
            template=self._template,
            variant=training_variant(self._template),
            controls=tokenizer.template_tokens,
            learn="all_assistant",
            end_of_turn=self.ends,
        )

    def encode(self, record: dict[str, Any]) -> HoldoutRow:
        """Raises BadData, naming the row, for one that cannot be scored."""
        messages: Messages = record["messages"]
        where = _where(record)
        last = answer_place(messages)
        before = self.prompt(messages[:last], where)
        whole = self._scored(messages, record["prompt"], where)
        rejected = record.get("rejected")
        return HoldoutRow(
            id=record["id"],
            kind=record["kind"],
            ids=whole.ids,
            learned=whole.learned,
            prompt=before,
            question=str(messages[last - 1]["content"]) if last else "",
            target=target_of(messages),
            rejected=self._scored(rejected, record["prompt"], where) if rejected is not None else None,
        )

    def prompt(self, messages: Messages, where: str) -> list[int]:
        """Token ids of what a server shows the model before it answers. Raises BadData, naming ``where``."""
        (encoded,) = self._tokenizer.encode([self._prompt(messages, where)], [[]])
        ids: list[int] = encoded.ids.tolist()
        return ids

    def _scored(self, messages: Messages, prompt: int, where: str) -> Encoded:
        """A conversation of which what the assistant says is scored, after the first ``prompt`` messages."""
        traced = self._tracer.trace(messages, where=where, prompt=prompt)
        (whole,) = self._tokenizer.encode([traced.rendering], [traced.learned])
        if not whole.learned[1:].any():
            raise BadData(
                "there is nothing to score in this row: the template shows no assistant text",
                where=where,
                remedy="Give the conversation an assistant message, or correct the recipe's chat_template.",
            )
        return Encoded(ids=whole.ids.tolist(), learned=whole.learned.tolist())

    def _prompt(self, messages: Messages, where: str) -> Rendering:
        text = self._template.render(messages, where=where, add_generation_prompt=True)
        if not self._template.control.search("".join(str(message["content"]) for message in messages)):
            return Rendering(text=text, turns=[], quoted=[])
        without = self._template.trace(messages, where=where)
        if not text.startswith(without.text):
            raise BadData(
                "a message spells a control token, and the template's generation prompt moves it",
                where=where,
                remedy="Remove the control token's text from the row.",
            )
        return Rendering(text=text, turns=[], quoted=without.quoted)


class TextRows:
    """Plain texts, of each the first ``most`` tokens."""

    ends: frozenset[str] = frozenset()

    def __init__(self, tokenizer: ChatTokenizer, most: int) -> None:
        self._labeller, self._most = TextLabeller(tokenizer, open_encoder(tokenizer, "tokenizers")), most

    def encode(self, record: dict[str, Any]) -> HoldoutRow:
        """Raises BadData, naming the row, for an empty text."""
        tokens = self._labeller.label([record["text"]], lambda _: _where(record)).tokens
        return HoldoutRow(
            id=record["id"],
            kind=record["kind"],
            ids=tokens.ids[: self._most].tolist(),
            learned=tokens.learned[: self._most].tolist(),
            prompt=[],
            question="",
            target="",
        )


def read_records(path: Path, form: Form = "chat") -> Iterator[dict[str, Any]]:
    """The rows of a dataset split: ``id``, ``kind``, ``row`` and ``text``, or ``messages`` and ``prompt``.

    The messages of preference data are the prompt's and the chosen answer's, of chat all; ``prompt`` counts the first.
    Preference data have ``rejected`` too: the prompt's messages and the rejected answer's.
    """
    import pyarrow.parquet as pq

    own = {"chat": ["messages"], "preference": ["messages", "chosen", "rejected"], "text": ["text"]}[form]
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=512, columns=["id", "kind", "row", *own]):
            for row in batch.to_pylist():
                if form == "text":
                    yield row
                    continue
                if form == "chat":
                    yield {**row, "messages": to_messages(row["messages"]), "prompt": 0}
                    continue
                before, chosen, rejected = row["messages"], row.pop("chosen"), row.pop("rejected")
                answers = {"messages": to_messages([*before, *chosen]), "rejected": to_messages([*before, *rejected])}
                yield {**row, **answers, "prompt": len(before)}


def choose(records: Iterator[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """The ``count`` records whose seeded hash of the id is smallest, in that order."""

    def rank(record: dict[str, Any]) -> str:
        return hashlib.sha256(f"{seed}:{record['id']}".encode()).hexdigest()

    return sorted(records, key=rank)[:count]


def answer_place(messages: Messages) -> int:
    """Index of the last assistant message. Raises BadData where there is none."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "assistant":
            return place
    raise BadData("a row has no assistant message", where="holdout", remedy="Give each row an answer.")


def target_of(messages: Messages) -> str:
    """The text of the last answer, trimmed."""
    return str(messages[answer_place(messages)]["content"]).strip()


def _where(record: dict[str, Any]) -> str:
    return f"row {record['row']} of the upload"
