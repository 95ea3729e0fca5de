"""``ft dataset``: add versions, see what is there and what became of it, and let held ones through."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli import classifier, encoder, name_model, sources
from ft_assets.cli.door import actor, api
from ft_assets.cli.reports import describe_report
from ft_assets.settings.readable import READABLE
from ft_resources.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Dataset versions: uploaded files with a curation policy.")
app.add_typer(classifier.app, name="classifier")
app.add_typer(encoder.app, name="encoder")
app.add_typer(name_model.app, name="name-model")
for command in (sources.watch, sources.unwatch, sources.watched, sources.pull):
    app.command()(command)
NAME_HELP = "tenant.name, such as acme.support. The version number is assigned automatically."
Key = Annotated[str, typer.Argument(metavar="KEY", help="Dataset key, such as acme.support.v1.")]
_SHOWN = 60
POLICY_HELP = "dataset.yaml with the settings for cleaning and splitting the rows. Default: the default policy."


@app.command()
def add(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help=f"{READABLE}; a folder of such files; or hub:ORG/NAME@REVISION#SPLIT.",
        ),
    ],
    name: Annotated[str, typer.Option(help=NAME_HELP)],
    policy: Annotated[Path | None, typer.Option(help=POLICY_HELP)] = None,
    validation: Annotated[
        list[Path] | None, typer.Option(help="File with your own validation rows; repeatable.")
    ] = None,
    holdout: Annotated[list[Path] | None, typer.Option(help="File with your own holdout rows; repeatable.")] = None,
) -> None:
    """Add files as the next version of a dataset. The same files with the same policy are the same version."""
    from ft_assets.cli.output import note, note_walls, warn

    added = api.add_dataset(sources, name, policy=policy, validation=validation or (), holdout=holdout or ())
    warn(added.warnings)
    print(added.key)
    note_walls(added.walls)
    note("added" if added.created else "that version already has the same files and policy; nothing was added")


@app.command()
def curate(key: Key) -> None:
    """Curate a version now, without a recipe, and show the result. Existing results are reused."""
    print("\n".join(describe_report(api.curate_dataset(key, actor=actor()))))


@app.command()
def diff(
    older: Annotated[str, typer.Argument(metavar="A", help="Key of the older version.")],
    newer: Annotated[str, typer.Argument(metavar="B", help="Key of the newer version.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two curated versions: rows added, removed, changed, and moved between splits."""
    from ft_assets.cli.output import print_json, print_table

    found = api.diff_datasets(older, newer)
    moves = {
        f"{before} to {after}": count
        for before, counts in sorted(found.moved.items())
        for after, count in sorted(counts.items())
    }
    if as_json:
        rows = dict(zip((older, newer), found.rows, strict=True))
        numbers = {"same": found.same, "changed": found.changed, "added": found.added, "removed": found.removed}
        print_json({"rows": rows, **numbers, "moved": moves, "reweighed": found.reweighed})
        return
    splits = ("train", "validation", "holdout")
    print_table(
        ("", *splits),
        [
            (name, *(f"{counts.get(split, 0):,}" for split in splits))
            for name, counts in (
                (older, found.rows[0]),
                (newer, found.rows[1]),
                ("added", found.added),
                ("removed", found.removed),
            )
        ],
        empty="",
    )
    print(f"{found.same:,} rows are identical; {found.changed:,} have the same prompt but other changes")
    for name, count in moves.items():
        print(f"{count:,} moved from {name}")
    if found.reweighed:
        print(f"{found.reweighed:,} of the identical rows have a different weight")


@app.command()
def near(
    key: Key,
    text: Annotated[str, typer.Option(help="The text.")] = "",
    file: Annotated[Path | None, typer.Option(help="File with the text to search for.")] = None,
    threshold: Annotated[float, typer.Option(help="Minimum similarity, from 0.2 to 1.")] = 0.5,
    top: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with full texts.")] = False,
) -> None:
    """Find the rows of a curated version most similar to a text, by character 5-grams."""
    from ft_assets.cli.output import note, print_json, print_table
    from ft_resources.strict import read_text

    if bool(text) == (file is not None):
        raise UserError("there is no text", where="ft dataset near", remedy="Give either --text or --file.")
    wanted = text if file is None else read_text(file, str(file))
    rows = api.near_rows(key, wanted, threshold=threshold, top=top)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    print_table(
        ("similarity", "estimate", "split", "row", "text"),
        [
            (f"{row.similarity:.3f}", f"{row.estimate:.3f}", row.split, row.id[:12], _beginning(row.text))
            for row in rows
        ],
        empty=f"No row is at least {threshold:g} similar to this text.",
    )
    if rows:
        note("similarity is exact; estimate is from datasketch; prompt and answer are compared together")


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


@app.command()
def approve(
    key: Key,
    note: Annotated[str, typer.Option(help="Reason why the version may be used anyway (recorded).")],
) -> None:
    """Approve a held version after reading its report. The approval is recorded permanently, with your name."""
    from ft_assets.cli.output import note as remark

    me = actor()
    record, shown = api.approve_dataset(key, note=note, actor=me)
    print(key)
    if (record.actor, record.note) == (me, note.strip()):
        remark("approved; queued submissions continue automatically; repeat ft run to continue it")
    else:
        remark(f"already approved by {record.actor} at {record.at}: {record.note}")
    if not shown:
        remark("the check in Dagster is updated when dataset is next materialized for this version")


@app.command()
def report(key: Key, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the curation report of a version: rows kept, rows dropped with reasons, warnings, and the report page."""
    from ft_assets.cli.output import print_json

    found = api.dataset_report(key)
    if as_json:
        approved = found.review.record.model_dump(mode="json") if found.review.record else None
        print_json({"key": key, "state": found.review.state, "approved": approved, **found.artifact.facts})
        return
    print("\n".join(describe_report(found)))


@app.command("list")
def list_(
    name: Annotated[str, typer.Argument(help="Only versions of this dataset (tenant.name). Default: all.")] = "",
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List dataset versions with their state: accepted, held, approved, deleted, not curated, or the curation error."""
    from ft_assets.cli.output import print_json, print_table

    rows = api.list_datasets(name=name, tenant=tenant)
    if as_json:
        print_json([{"key": str(row.key), "state": row.state, "why": row.why, **row.record} for row in rows])
        return
    print_table(
        ("dataset", "state", "added", "by", "digest"),
        [
            (
                str(row.key),
                f"{row.state}: {row.why}" if row.why else row.state,
                row.record["created_at"],
                row.record["actor"],
                row.record["digest"][:12],
            )
            for row in rows
        ],
        empty="No datasets yet. Add one: ft dataset add FILE --name tenant.name",
    )
