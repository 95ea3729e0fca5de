"""``ft dataset``: add versions, see what is there and what became of it, and let held ones through."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli import classifier
from ft_assets.cli.environment import actor, open_instance, open_store

app = typer.Typer(no_args_is_help=True, help="Dataset versions: uploaded files with their policy.")
app.add_typer(classifier.app, name="classifier")
NAME_HELP = "tenant.name, such as acme.support; the version is counted for you."
Key = Annotated[str, typer.Argument(metavar="KEY", help="Dataset key, such as acme.support.v1.")]
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


@app.command()
def approve(
    key: Key,
    note: Annotated[str, typer.Option(help="Why the version may be used all the same; it is recorded.")],
) -> None:
    """Let a held version through, once you have looked at its report. The record names you and stays."""
    from ft_assets.cli.output import note as remark
    from ft_assets.datasets.checks import report_review
    from ft_assets.datasets.review import approve as record_approval
    from ft_resources.artifacts import Artifacts

    artifacts, me = Artifacts(open_store()), actor()
    record = record_approval(artifacts, key, actor=me, note=note)
    shown = report_review(open_instance(), artifacts, key)
    print(key)
    if (record.actor, record.note) == (me, note.strip()):
        remark("approved; submissions that wait for it go on by themselves, an ft run when it is called again")
    else:
        remark(f"approved already by {record.actor} at {record.at}: {record.note}")
    if not shown:
        remark("its check in Dagster follows when the asset dataset is materialized for it again")


@app.command()
def report(key: Key, as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False) -> None:
    """What curation made of a version: its rows, what was left out and why, warnings, and where the page is."""
    from ft_assets import identity
    from ft_assets.cli.output import print_json
    from ft_assets.cli.reports import describe_report
    from ft_assets.datasets.review import review_of
    from ft_resources.artifacts import Artifacts

    artifacts = Artifacts(open_store())
    artifact = identity.dataset(artifacts, key)
    review = review_of(artifacts, key)
    if as_json:
        approved = review.record.model_dump(mode="json") if review.record else None
        print_json({"key": key, "state": review.state, "approved": approved, **artifact.facts})
        return
    print("\n".join(describe_report(key, artifact, review)))


@app.command("list")
def list_(
    name: Annotated[str, typer.Argument(help="Only this dataset's, as tenant.name; all of them where not given.")] = "",
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Dataset versions, and whether they may be used: accepted, held, approved, or not curated yet."""
    from ft_assets.cli.output import print_json, print_table
    from ft_assets.cli.reports import state_of
    from ft_assets.keys import DatasetKey
    from ft_resources.artifacts import Artifacts

    store = open_store()
    rows = []
    for entry in store.entries("names/dataset"):
        key = DatasetKey.parse(entry.path.rsplit("/", 1)[-1].removesuffix(".json"))
        if tenant in ("", key.tenant) and name in ("", f"{key.tenant}.{key.name}"):
            rows.append((key, state_of(Artifacts(store), str(key)), store.get_json(entry.path)))
    rows.sort(key=lambda row: (row[0].tenant, row[0].name, row[0].version))
    if as_json:
        print_json([{"key": str(key), "state": state, **record} for key, state, record in rows])
        return
    print_table(
        ("dataset", "state", "added", "by", "digest"),
        [
            (str(key), state, record["created_at"], record["actor"], record["digest"][:12])
            for key, state, record in rows
        ],
        empty="No datasets yet. Add one: ft dataset add FILE --name tenant.name",
    )
