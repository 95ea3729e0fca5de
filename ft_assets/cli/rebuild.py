"""``ft rebuild``: make the views (Dagster's partitions and materializations, MLflow's registry) from the store."""

import typer

from ft_assets.cli.environment import open_instance, open_store


def rebuild() -> None:
    """Recreate what Dagster and MLflow show from the store; what is there already is left as it is."""
    from ft_assets.cli.output import note
    from ft_assets.submissions.rebuild import rebuild_dagster, rebuild_tracking
    from ft_resources.tracking import default_uri, shared_mirror

    store = open_store()
    done = rebuild_dagster(store, open_instance())
    print(f"partitions added: {done.partitions}")
    print(f"materializations added: {done.materializations} of {done.known} known artifacts")
    for problem in done.problems:
        note(problem)
    uri = default_uri()
    if uri:
        mirrored = rebuild_tracking(store, shared_mirror(uri))
        print(f"mirrored to MLflow: {mirrored.runs} training runs, {mirrored.adapters} adapters")
        if mirrored.problem:
            note(mirrored.problem)
    if done.problems:
        raise typer.Exit(1)
