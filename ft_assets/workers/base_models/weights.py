"""Weights: is a safetensors file complete (checked without torch), and did a model load every weight it needs?

Format: 8 bytes with the header's length n (little endian), n bytes of JSON that map tensor names to ``dtype``,
``shape`` and ``data_offsets``, then the data (https://github.com/huggingface/safetensors#format).
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ft_resources.errors import BadBase

_MAX_HEADER = 100_000_000
_BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
_REMEDY = "Copy the file again from its source, or save the model again with save_pretrained."


def count_parameters(path: Path, where: str) -> int:
    """Elements of all tensors in a safetensors file. Raises BadBase for a truncated or inconsistent file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise BadBase(f"{path.name} is not a safetensors file", where=where, remedy=_REMEDY)
        header = file.read(length)
    try:
        tensors = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        parameters, end = _lay_out(tensors.values())
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BadBase(
            f"{path.name} has a safetensors header that cannot be read", where=where, remedy=_REMEDY
        ) from error
    if not parameters:
        raise BadBase(f"{path.name} holds no weights", where=where, remedy=_REMEDY)
    if 8 + length + end != size:
        what = f"{path.name} has {size} bytes and its header describes {8 + length + end}"
        raise BadBase(what, where=where, remedy=_REMEDY)
    return parameters


def require_every_weight(loading: Mapping[str, Any], where: str) -> None:
    """Raise BadBase if ``from_pretrained(…, output_loading_info=True)`` did not find every weight of the model.

    transformers only warns and continues with random values in their place, which differ each time.
    """
    missing = sorted(loading["missing_keys"])
    if missing:
        raise BadBase(
            f"the weights lack {len(missing)} of the model's tensors, such as {missing[0]}",
            where=where,
            remedy="Save the whole model again (save_pretrained), and register a new version of the recipe with it.",
        )


def _lay_out(tensors: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Elements of all tensors, and the bytes they fill. Raises ValueError for overlaps, gaps or wrong sizes."""
    parameters = end = 0
    for entry in sorted(tensors, key=lambda entry: entry["data_offsets"]):
        start, stop = entry["data_offsets"]
        elements = math.prod(_dimensions(entry["shape"]))
        if start != end or elements * _BITS[entry["dtype"]] != 8 * (stop - start):
            raise ValueError(entry)
        parameters, end = parameters + elements, stop
    return parameters, end


def _dimensions(shape: object) -> list[int]:
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(shape)
    return shape
