"""``ft plan`` and ``ft apply``: a folder under version control, and the platform that should be as it says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_assets.api import FolderStep

Folder = Annotated[
    Path, typer.Argument(help="Folder with tenants.yaml and recipes/*.yaml, and kubernetes.yaml for a cluster.")
]
_SIGNS = {"create": "+", "change": "~", "delete": "-"}


def plan(folder: Folder) -> None:
    """Show the differences between the platform and FOLDER: settings, quotas, tenants' objects and recipes. Changes
    nothing.
    """
    from ft_assets.cli.output import note

    steps = api.plan_folder(folder)
    for step in steps:
        _tell(step)
    note(f"{len(steps)} changes to apply: ft apply {folder}" if steps else "nothing differs")


def apply(folder: Folder) -> None:
    """Apply FOLDER to the platform. Nothing is deleted while its tenant has running work."""
    from ft_assets.cli.output import note

    done = api.apply_folder(folder, told=_tell)
    note(f"{len(done)} done" if done else "nothing differed")


def _tell(step: "FolderStep") -> None:
    print(f"{_SIGNS[step.verb]} {step.what}")
    for line in step.details:
        print(f"    {line}")
