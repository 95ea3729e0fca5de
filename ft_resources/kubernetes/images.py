"""Container images, named by digest so that what runs is what was meant."""

import re
from typing import Annotated

from pydantic import AfterValidator

_DIGEST = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


def pinned(image: str) -> bool:
    """Whether an image is named by digest."""
    return _DIGEST.fullmatch(image) is not None


def _pinned_image(image: str) -> str:
    if not pinned(image):
        raise ValueError("should name an image by digest, such as registry.example/ft@sha256:…, as tags move")
    return image


Image = Annotated[str, AfterValidator(_pinned_image)]
