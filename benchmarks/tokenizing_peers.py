"""What tokenizing is timed beside: raw ``tokenizers`` and TRL's preparation, each in a process of its own."""

import json
import multiprocessing
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

_AT_ONCE = 2048
_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>"
    "{% endif %}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def messages(user: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]


def made_up_rows(count: int) -> list[tuple[str, str]]:
    """Questions and answers of about 60 and 80 made-up words."""
    generator = random.Random(4)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(generator.choices(letters, range(26, 0, -1), k=generator.randint(1, 10))) for _ in range(20_000)]
    return [tuple(" ".join(generator.choices(words, k=size)) for size in (60, 80)) for _ in range(count)]  # type: ignore[misc]


def make_base(folder: Path) -> Path:
    """A folder with a byte-level BPE of 8,000 tokens and a ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8_000,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((" ".join(row) for row in made_up_rows(2_000)), trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": _CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


class RawTokenizer:
    """``Tokenizer.encode_batch`` on texts with two threads: ``seconds()`` of one pass, ``ids()`` of each text."""

    def __init__(self, folder: Path, texts: list[str]) -> None:
        # Read by the other process when it starts.
        os.environ |= {"RAYON_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true"}
        self._pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=_load_raw, initargs=(folder, texts)
        )

    def __enter__(self) -> "RawTokenizer":
        self._pool.submit(_raw_seconds).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def seconds(self) -> float:
        return self._pool.submit(_raw_seconds).result()

    def ids(self) -> list[np.ndarray]:
        return self._pool.submit(_raw_ids).result()


_raw: dict[str, Any] = {}


def _load_raw(folder: Path, texts: list[str]) -> None:
    from tokenizers import Tokenizer

    _raw.update(tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")), texts=texts)


def _raw_seconds() -> float:
    texts, encode = _raw["texts"], _raw["tokenizer"].encode_batch
    start = time.perf_counter()
    for place in range(0, len(texts), _AT_ONCE):
        encode(texts[place : place + _AT_ONCE], add_special_tokens=False)
    return time.perf_counter() - start


def _raw_ids() -> list[np.ndarray]:
    encodings = _raw["tokenizer"].encode_batch(_raw["texts"], add_special_tokens=False)
    return [np.array(encoding.ids, np.int32) for encoding in encodings]


class TrlPreparation:
    """SFTTrainer's preparation of a data set with assistant masks: ``seconds(num_proc)``."""

    def __init__(self, folder: Path, rows: list[tuple[str, str]]) -> None:
        self._folder, self._rows = folder, rows

    def seconds(self, num_proc: int) -> float:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_trl_seconds, self._folder, self._rows, num_proc).result()


def _trl_seconds(folder: Path, rows: list[tuple[str, str]], num_proc: int) -> float:
    """Of the second of two trainers: the first one has loaded everything."""
    import tempfile

    import datasets
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    datasets.disable_progress_bars()
    datasets.disable_caching()
    spent: list[float] = []

    class Timed(SFTTrainer):
        def _prepare_dataset(self, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            prepared = super()._prepare_dataset(*args, **kwargs)
            len(prepared[0]["input_ids"])
            spent.append(time.perf_counter() - start)
            return prepared

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    size: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size))
    with tempfile.TemporaryDirectory() as output:
        for count in (len(rows) // 10, len(rows)):
            Timed(
                model=model,
                args=SFTConfig(
                    output_dir=output,
                    assistant_only_loss=True,
                    dataset_num_proc=num_proc,
                    max_length=None,
                    report_to=[],
                    use_cpu=True,
                    bf16=False,
                ),
                train_dataset=datasets.Dataset.from_dict({"messages": [messages(*row) for row in rows[:count]]}),
                processing_class=tokenizer,
            )
    return spent[-1]
