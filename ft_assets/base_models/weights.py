"""Reading safetensors headers without torch: is the file whole, and how many parameters does it hold?

Format: 8 bytes with the header's length n (little endian), n bytes of JSON that map tensor names to ``dtype``,
``shape`` and ``data_offsets``, then the data (https://github.com/huggingface/safetensors#format).
"""

import json
import math
from pathlib import Path

from ft_resources.errors import BadBase

_MAX_HEADER = 100_000_000
_REMEDY = "Copy the file again from its source, or save the model anew with save_pretrained."


def count_parameters(path: Path, where: str) -> int:
    """Elements of all tensors in a safetensors file. Raises BadBase for a file that is cut short or something else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise BadBase(f"{path.name} is not a safetensors file", where=where, remedy=_REMEDY)
        header = file.read(length)
    try:
        tensors = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        shapes = [_dimensions(entry["shape"]) for entry in tensors.values()]
        end = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BadBase(
            f"{path.name} has a safetensors header that cannot be read", where=where, remedy=_REMEDY
        ) from error
    if 8 + length + end != size:
        what = f"{path.name} has {size} bytes and its header describes {8 + length + end}"
        raise BadBase(what, where=where, remedy=_REMEDY)
    return sum(math.prod(shape) for shape in shapes)


def _dimensions(shape: object) -> list[int]:
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(shape)
    return shape
