"""``ft ledger``: whether a training read every example exactly once an epoch."""

from typing import Annotated

import typer

from ft_assets.cli.environment import open_store


def ledger(
    dataset: Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")],
    recipe: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")],
) -> None:
    """Prove that a training read every example exactly once an epoch. Exit code 1 where it did not."""
    import tempfile
    from pathlib import Path

    from ft_assets import identity
    from ft_assets.checkpoints.proof import prove
    from ft_assets.cli.output import note
    from ft_resources.artifacts import Artifacts

    artifacts = Artifacts(open_store())
    checkpoint = identity.checkpoint(artifacts, dataset, recipe)
    with tempfile.TemporaryDirectory(prefix="ft-ledger-") as scratch:
        proof = prove(artifacts, checkpoint, Path(scratch))
    for finding in proof.findings:
        print(finding)
    note(f"looked at {proof.summary} of {checkpoint.address}")
    if proof.findings:
        raise typer.Exit(1)
    if proof.cut_short:
        print("No example was read twice in an epoch.")
    else:
        print("Every example was read exactly once an epoch.")
