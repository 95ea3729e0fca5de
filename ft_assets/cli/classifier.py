"""``ft dataset classifier``: text classifiers for the toxicity screen of a dataset policy."""

from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="Text classifiers for the toxicity screen and for refusals.")


@app.command()
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="Folder of a Transformers sequence classifier (safetensors), or hub:ORG/NAME@REVISION.",
        ),
    ],
    key: Annotated[
        str, typer.Argument(metavar="NAME.vN", help="Key of the classifier, such as toxic.v1. It cannot be reassigned.")
    ],
) -> None:
    """Add the classifier in FOLDER as NAME.vN."""
    from ft_assets.cli.output import note

    registered = api.add_classifier(source, key)
    print(registered.key)
    note(f"{'added' if registered.created else 'already present'}; its labels: {', '.join(registered.labels)}")


@app.command("list")
def list_() -> None:
    """List the classifiers with their labels."""
    from ft_assets.cli.output import print_table

    print_table(
        ("classifier", "labels", "digest"),
        [(each.key, ", ".join(each.labels), each.digest[:12]) for each in api.list_classifiers()],
        empty="No classifiers yet. Add one: ft dataset classifier add FOLDER NAME.vN",
    )
