"""``ft dataset``: add versions and see what is there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.environment import actor, open_instance, open_store

app = typer.Typer(no_args_is_help=True, help="Dataset versions: uploaded files with their policy.")
NAME_HELP = "tenant.name, such as acme.support; the version is counted for you."
POLICY_HELP = "The dataset.yaml that says how to clean and split the file; the default policy where not given."


def add_version(
    source: Path | str | Sequence[str],
    name: str,
    policy: Path | None,
    *,
    validation: Sequence[Path] = (),
    holdout: Sequence[Path] = (),
) -> tuple[str, bool]:
    """Add ``source`` as a version of ``tenant.name``: its key, and whether it is new."""
    from ft_assets.datasets.adding import add_dataset

    added = add_dataset(open_store(), source, name, policy, actor=actor(), validation=validation, holdout=holdout)
    return str(added.key), added.created


@app.command()
def add(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="JSONL, JSON, Parquet, CSV, TSV, TXT or PDF, also as .gz or .zst; or hub:ORG/NAME@REVISION#SPLIT.",
        ),
    ],
    name: Annotated[str, typer.Option(help=NAME_HELP)],
    policy: Annotated[Path | None, typer.Option(help=POLICY_HELP)] = None,
    validation: Annotated[
        list[Path] | None, typer.Option(help="A file of validation rows of your own; may be given several times.")
    ] = None,
    holdout: Annotated[
        list[Path] | None, typer.Option(help="A file of holdout rows of your own; may be given several times.")
    ] = None,
) -> None:
    """Add the files as the next version of a dataset; the same bytes with the same policy are the same version."""
    from ft_assets.cli.output import note
    from ft_assets.submissions.run import register_partitions

    key, created = add_version(sources, name, policy, validation=validation or (), holdout=holdout or ())
    register_partitions(open_instance(), dataset=key)
    print(key)
    note("added" if created else "these bytes with this policy are that version already; nothing was added")


@app.command("list")
def list_(
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """All dataset versions."""
    from ft_assets.cli.output import print_json, print_table
    from ft_assets.keys import DatasetKey

    store = open_store()
    rows = []
    for entry in store.entries("names/dataset"):
        key = DatasetKey.parse(entry.path.rsplit("/", 1)[-1].removesuffix(".json"))
        if tenant in ("", key.tenant):
            rows.append((key, store.get_json(entry.path)))
    rows.sort(key=lambda row: (row[0].tenant, row[0].name, row[0].version))
    if as_json:
        print_json([{"key": str(key), **record} for key, record in rows])
        return
    print_table(
        ("dataset", "added", "by", "digest"),
        [(str(key), record["created_at"], record["actor"], record["digest"][:12]) for key, record in rows],
        empty="No datasets yet. Add one: ft dataset add FILE --name tenant.name",
    )
