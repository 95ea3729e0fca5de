"""``ft ledger``: whether a training read every example exactly once per epoch."""

from typing import Annotated

import typer

from ft_assets.cli.door import api


def ledger(
    dataset: Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")],
    recipe: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")],
) -> None:
    """Prove that a training read every example exactly once per epoch. Exit code 1 if it did not."""
    from ft_assets.cli.output import note

    report = api.prove_ledger(dataset, recipe)
    proof = report.proof
    for finding in proof.findings:
        print(finding)
    note(f"checked {proof.summary} of {report.checkpoint}")
    for each in report.earlier:
        note(f"it continues {each}; earlier reads are in that training's own ledger")
    if proof.findings:
        raise typer.Exit(1)
    if proof.cut_short:
        print("No example was read twice in an epoch.")
    else:
        print("Every example was read exactly once per epoch.")
