"""``ft plan`` and ``ft apply``: a folder under version control, and the platform that should be as it says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_assets.api import FolderStep

Folder = Annotated[
    Path, typer.Argument(help="Folder with tenants.yaml and recipes/*.yaml; with kubernetes.yaml also a cluster's.")
]
_SIGNS = {"create": "+", "change": "~", "delete": "-"}


def plan(folder: Folder) -> None:
    """Show how the platform differs from FOLDER: settings and quota, tenants' objects, recipes. Changes nothing."""
    from ft_assets.cli.output import note

    steps = api.plan_folder(folder)
    for step in steps:
        _tell(step)
    note(f"{len(steps)} to do: ft apply {folder}" if steps else "nothing differs")


def apply(folder: Folder) -> None:
    """Bring the platform to what FOLDER says. Nothing is deleted whose tenant has work in flight."""
    from ft_assets.cli.output import note

    done = api.apply_folder(folder, told=_tell)
    note(f"{len(done)} done" if done else "nothing differed")


def _tell(step: "FolderStep") -> None:
    print(f"{_SIGNS[step.verb]} {step.what}")
    for line in step.details:
        print(f"    {line}")
