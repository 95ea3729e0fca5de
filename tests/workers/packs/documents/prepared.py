"""Rows as batches of the curated dataset, and what was prepared of them as text."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from ft_assets.settings.catalogue.forms import FormName
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.packs.documents.prepare import Prepared, Preparer, PrepareSettings
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.canonical import digest
from tests.workers.packs.conftest import Conversation

TOOLS = json.dumps([{"type": "function", "function": {"name": "look", "description": "<|end|> up", "parameters": {}}}])


CALLS = json.dumps([{"id": "", "type": "function", "function": {"name": "look", "arguments": {"key": "fox", "n": 1}}}])


def make_preparer(folder: Path, form: FormName = "chat", **settings: Any) -> Preparer:
    chosen = {"chat_template": None, "learn": "all_assistant", "max_length": 100, "overlong": "reject", **settings}
    return Preparer(PrepareSettings(folder=folder, form=form, **chosen))


def turns_of(conversation: Conversation) -> list[dict[str, str]]:
    empty = {"tool_calls": "", "tool_call_id": "", "name": ""}
    return [{**empty, **turn} for turn in conversation]


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("file", pa.string()), *EXAMPLES])
    empty = {"messages": [], "chosen": [], "rejected": [], "text": "", "tools": "", "group": "", "kind": "", "page": 0}
    empty["file"] = "rows.jsonl"
    filled = [{**empty, "row": number + 10, **row, "id": digest([number, row])} for number, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(filled, schema=schema)


def chats_of(*conversations: Conversation) -> pa.RecordBatch:
    return batch_of(*({"messages": turns_of(conversation)} for conversation in conversations))


def text_of(base: Path, prepared: Prepared, document: int, *, learned: bool = False) -> str:
    span = slice(*prepared.offsets[document : document + 2].tolist())
    ids = prepared.input_ids[span][prepared.learned[span]] if learned else prepared.input_ids[span]
    return ChatTokenizer.load(base).tokenizer.decode(ids.tolist(), skip_special_tokens=False)


def pair_of(prompt: Conversation, chosen: str, rejected: str) -> dict[str, Any]:
    return {
        "messages": turns_of(prompt),
        "chosen": turns_of([{"role": "assistant", "content": chosen}]),
        "rejected": turns_of([{"role": "assistant", "content": rejected}]),
    }
