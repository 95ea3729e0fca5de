"""``ft dataset watch`` and what belongs to it: datasets whose new versions come from a source."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import actor, api

Name = Annotated[str, typer.Argument(metavar="NAME", help="tenant.name, such as acme.support.")]
Policy = Annotated[Path, typer.Option(help="A dataset.yaml with a `source`.")]


def watch(name: Name, policy: Policy) -> None:
    """Take new versions of a dataset from the source in its dataset.yaml, whenever that has other rows."""
    from ft_assets.cli.output import note

    watch, new, seen = api.watch_dataset(name, policy, actor=actor())
    print(watch.dataset)
    there = f"; it has {seen} now" if seen else ""
    note(f"{'watched from now on' if new else 'watched already'}{there}; the daemon's sources_sensor pulls the rows")


def unwatch(name: Name) -> None:
    """Watch a dataset's source no longer. Its versions stay."""
    from ft_assets.cli.output import note

    gone = api.unwatch_dataset(name, actor=actor())
    note("no longer watched" if gone else "it was not watched")


def pull(name: Name) -> None:
    """Read the source of a watched dataset now, and add its rows as a version."""
    from ft_assets.cli.output import note, warn

    pulled, added = api.pull_dataset(name, actor=actor())
    warn(added.warnings)
    print(added.key)
    note(f"{'added' if added.created else 'that version already has these rows'}; {pulled.seen}")


def watched(
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List watched datasets, where their rows come from, and what became of them last."""
    from ft_assets.cli.output import print_json, print_table

    rows = api.watched_datasets(tenant=tenant)
    if as_json:
        last = {row.dataset: row.last.model_dump(mode="json") if row.last else None for row in rows}
        print_json([{"dataset": row.dataset, "source": row.source, "last": last[row.dataset]} for row in rows])
        return
    print_table(
        ("dataset", "source", "last pulled", "version"),
        [
            (
                row.dataset,
                row.source,
                row.last.at if row.last else "never",
                (row.last.version or f"refused: {row.last.refused}") if row.last else "",
            )
            for row in rows
        ],
        empty="No dataset is watched. Watch one: ft dataset watch tenant.name --policy dataset.yaml",
    )
