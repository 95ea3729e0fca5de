"""Which matrices are worth multiplying in 8-bit floats."""

_STEP = 16
"""GPUs multiply 8-bit floats in blocks of this many."""


def can_be_float8(inputs: int, outputs: int) -> bool:
    """Whether a GPU can multiply by a matrix [outputs, inputs] in 8 bits, forward and backward."""
    return inputs % _STEP == 0 and outputs % _STEP == 0


def pays_in_float8(inputs: int, outputs: int) -> bool:
    """Whether that takes less time than in bf16, casting included.

    The bounds are torchao's for scales by row, which it measured on an H100 (``_auto_filter_for_recipe``,
    https://github.com/pytorch/ao/tree/main/torchao/float8#performance). A matrix of keys or values of Llama 3 8B
    [1024, 4096] is too small; its other matrices pay.
    """
    wide = outputs > 2048 and inputs > 1024 and (outputs > 4096 or inputs > 2048)
    return wide and can_be_float8(inputs, outputs)
