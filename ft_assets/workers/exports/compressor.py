"""llm-compressor, run as a script by the Python of its own environment:
``compressor.py MODEL ROWS TARGET METHOD SCHEME``.

It quantises the linear layers of the model in folder MODEL by METHOD (GPTQ, AWQ or rounding), but not the head, and
writes it to folder TARGET. ROWS is a JSON file with token ids; rounding needs none. Nothing of the platform is
imported: that environment does not have it.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    model, rows, target, method, scheme = sys.argv[1:]
    import torch
    from llmcompressor import oneshot
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype="auto", local_files_only=True)
    oneshot(model=loaded, recipe=_recipe(method, scheme), **_shown(json.loads(Path(rows).read_bytes())))
    loaded.save_pretrained(target, save_compressed=True)


def _recipe(method: str, scheme: str) -> list[Any]:
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier

    modifier = GPTQModifier if method == "GPTQ" else QuantizationModifier
    layers = modifier(targets="Linear", scheme=scheme, ignore=["lm_head"])
    return [_scaled(), layers] if method == "AWQ" else [layers]


def _scaled() -> Any:
    """AWQ's step before rounding: weights of channels with large activations are scaled up, the activations down."""
    import torch
    from llmcompressor.modifiers.transform import AWQModifier
    from llmcompressor.pipelines.cache import IntermediatesCache

    if not torch.accelerator.is_available():
        # llm-compressor pins its cache in memory for a transfer to an accelerator; torch cannot pin without one.
        IntermediatesCache.pin_memory = lambda *_, **__: None
    return AWQModifier(duo_scaling="both")


def _shown(ids: list[list[int]]) -> dict[str, Any]:
    """The rows for calibration, as ``oneshot`` takes them."""
    from datasets import Dataset

    if not ids:
        return {}
    return {
        "dataset": Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}),
        "max_seq_length": max(map(len, ids)),
        "num_calibration_samples": len(ids),
        "shuffle_calibration_samples": False,
    }


if __name__ == "__main__":
    main()
