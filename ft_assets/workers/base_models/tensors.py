"""Tensors of safetensors files, read and rewritten without torch, by rows, so that no tensor must fit into memory.

numpy has no bfloat16. It is a float32 without its last 16 bits, and is read and written as 16-bit integers here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.base_models.contents import base_json
from ft_resources.errors import BadBase

# The type that each dtype is read as, and its largest finite number.
_RAW: Mapping[str, Any] = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
_LARGEST = {"F64": 1.7976931348623157e308, "F32": 3.4028234663852886e38, "F16": 65504.0, "BF16": 3.3895313892515355e38}
_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_COPIED_AT_ONCE = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A tensor's location: ``start`` and ``size`` in bytes, from the beginning of ``file``."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int

    def open(self, *, write: bool = False) -> Any:
        """The stored numbers, memory-mapped but not read. Raises BadBase for dtypes that are not plain floats."""
        if self.dtype not in _RAW:
            raise BadBase(
                f"{self.name} is held in {self.dtype}, and only plain floating-point numbers can be changed",
                where=self.file.name,
                remedy="Take the base in bfloat16, float16 or float32, as its makers publish it beside quantised ones.",
            )
        mode: Literal["r+", "r"] = "r+" if write else "r"
        return np.memmap(self.file, _RAW[self.dtype], mode, self.start, self.shape)


def stored_dtype(folder: Path) -> str:
    """``float32``, ``float16`` or ``bfloat16``: the dtype in which Transformers loads a model as it is stored, which is
    ``config.json``'s, else that of the first floating-point tensor."""
    config = base_json(folder / "config.json", str(folder))
    named: Any = config.get("dtype") or config.get("torch_dtype")
    files = sorted(folder.glob("*.safetensors")) if named is None else []
    found = (_NAMES.get(stored.dtype) for path in files for stored in read_header(path)[0].values())
    return named if named in _NAMES.values() else next(filter(None, found), "float32")


def read_header(path: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Every tensor of a safetensors file by name, in byte order, and the file's metadata."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        shape = tuple(entry["shape"])
        tensors[name] = Stored(
            name=name, file=path, dtype=entry["dtype"], shape=shape, start=8 + length + start, size=stop - start
        )
    return tensors, metadata


def decoded(raw: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    """Stored numbers of ``dtype`` as float64, which represents each of them exactly."""
    if dtype == "BF16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.astype(np.float64)


def encoded(values: NDArray[np.float64], dtype: str, where: str) -> NDArray[Any]:
    """``values`` rounded to the nearest number of ``dtype``. Raises BadBase if a value is too large for it."""
    if not np.all(np.abs(values) <= _LARGEST[dtype]):
        raise BadBase(
            f"a weight of {where} would not be finite in {dtype}",
            where=where,
            remedy="Use a base in bfloat16 or float32, or train with a lower learning rate.",
        )
    if dtype != "BF16":
        return values.astype(_RAW[dtype])
    bits = values.astype(np.float32).view(np.uint32)
    # Ties round to even, as in IEEE rounding.
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def append_rows(path: Path, rows: Mapping[str, NDArray[Any]]) -> None:
    """Rewrite a safetensors file with ``rows`` (tensor name to stored numbers) appended to the tensors of these names.

    The new file replaces the old one; other links to the old file keep its content.
    """
    tensors, metadata = read_header(path)
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, stored in tensors.items():
        more = rows.get(name)
        shape = stored.shape if more is None else (stored.shape[0] + len(more), *stored.shape[1:])
        size = stored.size + (0 if more is None else more.nbytes)
        header[name] = {"dtype": stored.dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    # Tensors begin at multiples of 8, as the format's own writer aligns them.
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f".{path.name}.partial")
    with path.open("rb") as old, partial.open("wb") as new:
        new.write(len(text).to_bytes(8, "little") + text)
        for name, stored in tensors.items():
            old.seek(stored.start)
            left = stored.size
            while left:
                piece = old.read(min(left, _COPIED_AT_ONCE))
                new.write(piece)
                left -= len(piece)
            if name in rows:
                new.write(np.ascontiguousarray(rows[name]).tobytes())
    partial.replace(path)
