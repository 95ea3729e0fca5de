"""What evaluation is timed on: a random Llama of the demo's shape and few-shot multiple-choice tasks that fill its
context, from ARC-Challenge and HellaSwag where ``FT_REAL_DATA`` names the shared data, else from made-up words."""

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tokenizing_peers import made_up_rows

_VOCABULARY = 3072
_END = "<|end|>"
# Tokens left for a question and its choices behind the few-shot examples.
_ROOM = {512: 130, 4096: 260}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A question with its choices, of which number ``gold`` is right."""

    id: str
    query: str
    choices: list[str]
    gold: int

    @property
    def text(self) -> str:
        return f"{self.query} {self.choices[self.gold]}\n\n"


def is_real() -> bool:
    """Whether the tasks are of real data."""
    return bool(os.environ.get("FT_REAL_DATA"))


def make_all(folder: Path, context: int, count: int) -> dict[str, Path]:
    """A base with ``context`` tokens in ``folder/base``, and the folders of its tasks by name, of ``count`` items each.

    Every prompt of a task begins with the same examples, and each item fits into the context with all its choices.
    """
    items = _real_items() if is_real() else _made_up_items()
    tokenizer = _make_tokenizer([item.text for some in items.values() for item in some])
    _make_base(folder / "base", tokenizer, context)
    return {name: _make_task(folder / name, name, some, tokenizer, context, count) for name, some in items.items()}


def _real_items() -> dict[str, list[Item]]:
    compact = Path(os.environ["FT_REAL_DATA"]) / "eval_compact"
    found = {}
    for name in ("arc_challenge", "hellaswag"):
        rows = [json.loads(line) for line in (compact / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        docs = [(row["id"], row["doc"]) for row in rows]
        found[name] = [
            Item(id=str(key), query=doc["query"], choices=doc["choices"], gold=int(doc["gold"])) for key, doc in docs
        ]
    return found


def _made_up_items() -> dict[str, list[Item]]:
    generator = random.Random(1)
    rows = made_up_rows(2_400)
    items = []
    for number, (asked, answer) in enumerate(rows):
        words = answer.split()
        choices = [" ".join(generator.sample(words, generator.randint(3, 10))) for _ in range(4)]
        query = " ".join(asked.split()[: generator.randint(10, 30)])
        items.append(Item(id=str(number), query=query, choices=choices, gold=number % 4))
    return {"words_short": items[:1_200], "words_more": items[1_200:]}


def _make_tokenizer(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _make_base(folder: Path, tokenizer: Any, context: int) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=256,
        intermediate_size=640,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        # Larger than usual, so that choices differ by more than rounding.
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _END, "pad_token": _END}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": context}))


def _make_task(folder: Path, name: str, items: list[Item], tokenizer: Any, context: int, count: int) -> Path:
    """Examples until the context has room for a question only, then the items that fit behind them."""
    lengths = [len(each.ids) for each in tokenizer.encode_batch([item.text for item in items])]
    shots = used = 0
    while used + lengths[shots] <= context - _ROOM[context]:
        used, shots = used + lengths[shots], shots + 1
    scored: list[Item] = []
    for item in items[shots:]:
        longest = max(len(tokenizer.encode(f"{item.query} {choice}").ids) for choice in item.choices)
        if used + longest < context and len(scored) < count:
            scored.append(item)
    folder.mkdir()
    for file, some in (("shots", items[:shots]), ("items", scored)):
        lines = [
            json.dumps({"id": each.id, "query": each.query, "choices": each.choices, "gold": each.gold})
            for each in some
        ]
        (folder / f"{file}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"train": "shots.jsonl", "test": "items.jsonl"}},
        "output_type": "multiple_choice",
        "fewshot_split": "train",
        "test_split": "test",
        "doc_to_text": "query",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "num_fewshot": shots,
        "fewshot_config": {"sampler": "first_n"},
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    (folder / "task.yaml").write_text(json.dumps(task, indent=2))
    return folder


def stock_tasks(folder: Path, tasks: dict[str, Path]) -> Path:
    """The same task files for ``lm_eval --include_path``, naming their data by its whole path."""
    folder.mkdir()
    for name, place in tasks.items():
        task = json.loads((place / "task.yaml").read_text())
        files = task["dataset_kwargs"]["data_files"]
        task["dataset_kwargs"]["data_files"] = {split: str(place / file) for split, file in files.items()}
        (folder / f"{name}.yaml").write_text(json.dumps(task))
    return folder
