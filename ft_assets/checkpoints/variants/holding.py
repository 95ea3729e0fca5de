"""How Transformers is told to hold a base's weights."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch

from ft_assets.checkpoints.variants import Weights

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def holding(weights: Weights, precision: str, device: str) -> dict[str, Any]:
    """Arguments of ``from_pretrained``.

    ``nf4`` is what QLoRA trains on (Dettmers et al., 2023, https://arxiv.org/abs/2305.14314): 4-bit normal floats,
    their scales quantised again, computed with in ``precision``. They are made where they will be used, so ``device``
    counts for them alone.
    """
    if weights != "nf4":
        return {"dtype": _DTYPES[weights]}
    from transformers import BitsAndBytesConfig

    # What is not quantised, such as embeddings and norms, is held in the dtype computed with.
    dtype = _DTYPES[precision]
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )
    return {"dtype": dtype, "quantization_config": four_bit, "device_map": {"": device}}


def keep_held(model: Any) -> None:
    """Keep 4-bit weights as they are held, on every processor.

    Where a CPU has AVX512-BF16, bitsandbytes 0.50 repacks them at the first evaluation and rounds their scales to
    bfloat16: other figures than elsewhere, other weights than were trained on, and an error where a matrix has fewer
    columns than a block (64).
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
