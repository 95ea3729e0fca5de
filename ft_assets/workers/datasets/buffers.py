"""The texts of Arrow's string arrays as numpy arrays over Arrow's own memory."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_buffers(texts: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Offsets (n + 1; the first need not be 0) and UTF-8 of ``texts`` (no nulls), without a copy.

    Both are read-only even if Arrow's memory is not: a kernel is compiled for one type of arguments.
    """
    _, offsets, data = texts.buffers()
    if not len(texts) or offsets is None:
        return read_only(np.zeros(1, np.int32)), read_only(np.zeros(0, np.uint8))
    every = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return read_only(every), read_only(np.frombuffer(data or b"", np.uint8))


def read_only(array: NDArray) -> NDArray:
    """A read-only view of ``array``."""
    view = array.view()
    view.flags.writeable = False
    return view
