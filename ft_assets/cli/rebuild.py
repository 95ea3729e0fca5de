"""``ft rebuild``: make the views (Dagster's partitions and materializations, MLflow's registry) from the store."""

import typer

from ft_assets.cli.door import api


def rebuild() -> None:
    """Recreate the entries in Dagster and MLflow, and under Jobs, from the store. Existing entries are not changed."""

    from ft_assets.cli.output import note

    done = api.rebuild()
    print(f"partitions added: {done.partitions}")
    print(f"materializations added: {done.materializations} of {done.known} known artifacts")
    print(f"jobs added: {done.jobs}")
    for problem in done.problems:
        note(problem)
    if done.mirrored:
        print(f"mirrored to MLflow: {done.mirrored.runs} training runs, {done.mirrored.adapters} adapters")
        if done.mirrored.problem:
            note(done.mirrored.problem)
    if done.problems:
        raise typer.Exit(1)
