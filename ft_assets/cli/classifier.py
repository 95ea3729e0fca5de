"""``ft dataset classifier``: text classifiers for the toxicity screen of a dataset policy."""

from typing import Annotated

import typer

from ft_assets.cli.environment import actor, open_store

app = typer.Typer(no_args_is_help=True, help="Text classifiers that a dataset policy's toxicity screen can name.")


@app.command()
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="A transformers sequence classifier (safetensors), or hub:ORG/NAME@REVISION."
        ),
    ],
    key: Annotated[str, typer.Argument(metavar="NAME.vN", help="Its key, such as toxic.v1; it never changes.")],
) -> None:
    """Store the classifier in FOLDER as NAME.vN."""
    from ft_assets.cli.output import note
    from ft_assets.datasets.screening.classifiers import add_classifier

    registered = add_classifier(open_store(), source, key, actor=actor())
    print(registered.key)
    note(f"{'added' if registered.created else 'was there already'}; its labels: {', '.join(registered.labels)}")


@app.command("list")
def list_() -> None:
    """All classifiers with their labels."""
    from ft_assets.cli.output import print_table
    from ft_assets.datasets.screening.classifiers import get_classifier, list_classifiers
    from ft_resources.artifacts import Address, Artifacts

    store = open_store()
    rows = []
    for key in list_classifiers(store):
        ref = get_classifier(store, key)
        artifact = Artifacts(store).get(Address.parse(ref.address))
        rows.append((key, ", ".join(artifact.facts["labels"]), ref.digest[:12]))
    print_table(
        ("classifier", "labels", "digest"),
        rows,
        empty="No classifiers yet. Add one: ft dataset classifier add FOLDER NAME.vN",
    )
