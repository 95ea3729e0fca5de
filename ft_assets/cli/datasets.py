"""``ft dataset``: add versions and see what is there."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.environment import actor, open_instance, open_store

app = typer.Typer(no_args_is_help=True, help="Dataset versions: uploaded files with their policy.")
NAME_HELP = "tenant.name, such as acme.support; the version is counted for you."
POLICY_HELP = "The dataset.yaml that says how to clean and split the file; the default policy where not given."


def add_version(file: Path, name: str, policy: Path | None) -> tuple[str, bool]:
    """Add ``file`` as a version of ``tenant.name``: its key, and whether it is new."""
    from ft_assets.datasets.policy import DatasetPolicy, load_policy
    from ft_assets.datasets.versions import add_dataset_version
    from ft_resources.errors import UserError

    tenant, dot, short = name.partition(".")
    if not dot or not short:
        raise UserError(
            f"{name!r} is not a dataset name", where="--name", remedy="Write it as tenant.name, such as acme.support."
        )
    settled = load_policy(_read_text(policy), str(policy)) if policy else DatasetPolicy()
    added = add_dataset_version(open_store(), file, tenant=tenant, name=short, policy=settled, actor=actor())
    return str(added.key), added.created


def _read_text(path: Path) -> str:
    from ft_resources.errors import UserError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"the file cannot be read ({reason})", where=str(path), remedy="Check the path.") from error


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="A JSON lines file, one conversation a line.")],
    name: Annotated[str, typer.Option(help=NAME_HELP)],
    policy: Annotated[Path | None, typer.Option(help=POLICY_HELP)] = None,
) -> None:
    """Add FILE as the next version of a dataset; the same bytes with the same policy are the same version."""
    from ft_assets.cli.output import note
    from ft_assets.submissions.run import register_partitions

    key, created = add_version(file, name, policy)
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
