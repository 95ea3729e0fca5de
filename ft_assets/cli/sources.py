"""``ft dataset watch`` and what belongs to it: datasets whose new versions come from a source."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import actor, api

Name = Annotated[str, typer.Argument(metavar="NAME", help="tenant.name, such as acme.support.")]
Policy = Annotated[Path, typer.Option(help="dataset.yaml with a `source`.")]


def watch(name: Name, policy: Policy) -> None:
    """Watch the source in a dataset.yaml: each change of its rows becomes a new version of the dataset."""
    from ft_assets.cli.output import note

    watch, new, seen = api.watch_dataset(name, policy, actor=actor())
    print(watch.dataset)
    there = f"; it has {seen} now" if seen else ""
    note(f"{'watching' if new else 'already watched'}{there}; the daemon's sources_sensor pulls the rows")


def unwatch(name: Name) -> None:
    """Stop watching a dataset's source. Existing versions are kept."""
    from ft_assets.cli.output import note

    gone = api.unwatch_dataset(name, actor=actor())
    note("no longer watched" if gone else "not watched")


def pull(name: Name) -> None:
    """Read the source of a watched dataset now, and add its rows as a new version."""
    from ft_assets.cli.output import note, warn

    pulled, added = api.pull_dataset(name, actor=actor())
    warn(added.warnings)
    print(added.key)
    note(f"{'added' if added.created else 'that version already has these rows'}; {pulled.seen}")


def watched(
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List watched datasets with their sources and last results."""
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
