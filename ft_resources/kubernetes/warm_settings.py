"""Which nodes are kept warm: part of the cluster's settings."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from ft_resources.kubernetes.images import Image
from ft_resources.strict_model import StrictModel

_BASE = re.compile(r"hub:[\w.-]+(/[\w.-]+)?@[0-9a-f]{40}|folder:sha256:[0-9a-f]{64}", re.ASCII)


def _named_base(base: str) -> str:
    if not _BASE.fullmatch(base):
        raise ValueError(
            f"{base!r} should name a base as the store has it: hub:ORG/NAME@COMMIT with the whole commit, or "
            "folder:sha256:DIGEST"
        )
    return base


def warm_name(gpu_type: str) -> str:
    """The Deployment of warm nodes of a GPU type."""
    return f"ft-warm-{re.sub(r'[^a-z0-9]+', '-', gpu_type.lower()).strip('-')}"


Bases = Annotated[tuple[Annotated[str, AfterValidator(_named_base)], ...], Strict(False)]


class Warm(StrictModel):
    """Nodes of a GPU type that are kept although nobody works there, with what workers wait for on their disk."""

    nodes: int = Field(1, ge=0, description="Number of nodes; 0: none.")
    gpus: int = Field(8, ge=1, description="GPUs of such a node; its pod requests all of them.")
    image: Image | None = Field(None, description="Worker image to preload, by digest; null: image of the settings.")
    bases: Bases = Field(
        (),
        description="Shared bases to preload, as hub:ORG/NAME@COMMIT or folder:sha256:DIGEST. Requires a cache of "
        "kind host-path.",
    )
