"""Arrays in files as attributes that are mapped when they are first used."""

from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)


class Mapped(cached_property[NDArray[Kind]], Generic[Kind]):
    """``lengths = Mapped[np.int64]()`` in a class whose ``_mapped(name)`` opens the array called ``lengths``."""

    def __init__(self) -> None:
        super().__init__(lambda owner: owner._mapped(self.attrname))
