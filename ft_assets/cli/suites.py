"""``ft suite``: evaluation suites."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(
    no_args_is_help=True, help="Evaluation suites: a task file (of lm-eval, or with a kind) and its data."
)


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(help="Folder with one task file (*.yaml) and its data.")],
    key: Annotated[str, typer.Option(help="Key of the suite: name.vN, such as book-cloze.v1.")],
) -> None:
    """Register FOLDER as a suite for recipes."""
    from ft_assets.cli.output import note

    registered = api.add_suite(folder, key)
    print(registered.key)
    note(f"{'registered' if registered.created else 'already registered'}: {registered.items:,} items")


@app.command()
def install(
    names: Annotated[
        list[str],
        typer.Argument(help="Groups (general, code, instruct, safety, multilingual, offline) or suites by name."),
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="hub:ORG/NAME@COMMIT: Hub data set of the suites; with a group, only its suites of this data set.",
        ),
    ] = "",
    offline: Annotated[
        Path | None,
        typer.Option(help="Folder with the files listed by ft suite catalogue --files; nothing is downloaded."),
    ] = None,
) -> None:
    """Download public benchmarks, verify their digests, and register them as suites."""
    from ft_assets.cli.output import note

    licences = {
        suite.key.replace("*", variant): ", ".join(suite.licences)
        for suite in api.suite_catalogue()
        for variant in suite.variants or ("",)
    }
    for suite in api.install_suites(names, offline=offline, source=source):
        print(suite.key)
        done = "installed" if suite.created else "already installed"
        note(f"{done}: {suite.items:,} items, licence {licences[suite.key]}")
    for each in api.suites_left(names, offline=offline):
        note(f"not installed: {', '.join(_family(each.suites))}; {each.why}:\n  {each.command}")


@app.command()
def catalogue(
    files: Annotated[bool, typer.Option("--files", help="List the files, for a machine without network.")] = False,
) -> None:
    """List the suites that can be installed, with items, licence, source and purpose."""
    from ft_assets.cli.output import note, print_table

    suites = api.suite_catalogue()
    if files:
        found = {file.path: file for suite in suites for file in suite.files}
        rows = [(file.path, file.url, f"{file.size:,}", file.sha256) for file in found.values()]
        print_table(("put it at", "fetch", "bytes", "sha256 (unpacked)"), rows, empty="")
        note("data sets of the Hub, at a commit of your choice:")
        hub = [(each.sources[0].removeprefix("hub:"), each.patterns) for each in suites if each.patterns]
        for line in dict.fromkeys(_download(*each) for each in hub):
            note(f"  {line}")
        return
    print_table(
        ("suite", "group", "items", "licence", "source", "for"),
        [
            (each.key, each.group, _number(each.items), ", ".join(each.licences), ", ".join(each.sources), each.what)
            for each in sorted(suites, key=lambda each: (each.group, each.key))
        ],
        empty="",
    )
    note("where the source is hub:…, installing takes --from with a commit of your choice; * is one of:")
    for each in suites:
        if each.variants:
            note(f"  {each.key}: {', '.join(each.variants)}")


def _family(keys: tuple[str, ...]) -> list[str]:
    """The keys, of very many the first and the last."""
    return list(keys) if len(keys) < 12 else [keys[0], "…", keys[-1]]


def _download(repo: str, patterns: tuple[str, ...]) -> str:
    """The command that lays files of data set ``repo`` as --offline wants them."""
    files = " ".join(f"--include '{pattern}'" for pattern in patterns)
    return f"hf download {repo} --repo-type dataset --revision COMMIT --local-dir FOLDER/{repo} {files}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@app.command("list")
def list_() -> None:
    """List the registered suites."""
    from ft_assets.cli.output import print_table

    rows = [(suite.key, suite.digest[:12]) for suite in api.list_suites()]
    print_table(
        ("suite", "digest"),
        rows,
        empty="No suites yet. Install some: ft suite install general or offline; or: ft suite add FOLDER --key name.vN",
    )
