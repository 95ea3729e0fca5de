"""Whether an adapter's numbers are numbers: what holds NaN or infinity answers noise, to all who share its batch."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ft_resources.serving.errors import BadAdapter

# By dtype: its bits as an integer, and those that are all set in what is not finite.
_EXPONENTS: dict[str, tuple[type[np.unsignedinteger[Any]], int]] = {
    "F64": (np.uint64, 0x7FF << 52),
    "F32": (np.uint32, 0xFF << 23),
    "BF16": (np.uint16, 0xFF << 7),
    "F16": (np.uint16, 0x1F << 10),
    "F8_E5M2": (np.uint8, 0x1F << 2),
    # No infinities, and one NaN of each sign.
    "F8_E4M3": (np.uint8, 0x7F),
}
_AT_ONCE = 1 << 24


def require_finite(folder: Path) -> None:
    """Raise BadAdapter if a weight or a setting of the adapter in ``folder`` is NaN or infinite.

    A file that is no JSON or no safetensors is left to who loads it, and cannot.
    """
    for path in sorted(folder.rglob("*.safetensors")):
        for name, entry, start in _tensors(path):
            if entry["dtype"] in _EXPONENTS and not _is_finite(path, entry, start):
                raise _bad(folder, f"the weights {name} are not finite")
    for path in sorted(folder.rglob("adapter_config.json")):
        try:
            settings = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            continue
        for name, value in settings.items() if isinstance(settings, dict) else ():
            numbers = value.values() if isinstance(value, dict) else [value]
            if any(isinstance(each, float) and not math.isfinite(each) for each in numbers):
                raise _bad(folder, f"the setting {name} is not finite")


def _tensors(path: Path) -> list[tuple[str, dict[str, Any], int]]:
    """Name, entry and first byte of each tensor; none if the header cannot be read."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length if length <= path.stat().st_size else 0))
        header.pop("__metadata__", None)
        return [(name, entry, 8 + length + entry["data_offsets"][0]) for name, entry in header.items()]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return []


def _is_finite(path: Path, entry: dict[str, Any], start: int) -> bool:
    kind, exponent = _EXPONENTS[entry["dtype"]]
    numbers = (entry["data_offsets"][1] - entry["data_offsets"][0]) // np.dtype(kind).itemsize
    with path.open("rb") as file:
        file.seek(start)
        while numbers > 0:
            bits = np.fromfile(file, kind, min(numbers, _AT_ONCE))
            if ((bits & kind(exponent)) == exponent).any():
                return False
            # A cut file has fewer, and does not load.
            numbers = numbers - len(bits) if len(bits) else 0
    return True


def _bad(folder: Path, what: str) -> BadAdapter:
    return BadAdapter(what, where=str(folder), remedy="Train it again, with a lower learning rate; see its loss.")
