"""``ft dataset encoder``: text encoders for the search for paraphrased test items."""

from typing import Annotated, Literal

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="Text encoders for the search for paraphrases.")


@app.command()
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Folder of a Transformers encoder (safetensors), or hub:ORG/NAME@REVISION."
        ),
    ],
    key: Annotated[
        str, typer.Argument(metavar="NAME.vN", help="Key of the encoder, such as e5.v1. It cannot be reassigned.")
    ],
    pooling: Annotated[
        Literal["mean", "cls"] | None,
        typer.Option(
            help="Pooling of token vectors: mean, or the first token. Default: the encoder's own configuration."
        ),
    ] = None,
) -> None:
    """Add the encoder in FOLDER as NAME.vN."""
    from ft_assets.cli.output import note

    registered = api.add_encoder(source, key, pooling=pooling)
    print(registered.key)
    note(f"{'added' if registered.created else 'already present'}; pooling: {registered.pooling}")


@app.command("list")
def list_() -> None:
    """List the encoders."""
    from ft_assets.cli.output import print_table

    print_table(
        ("encoder", "pooling"),
        api.list_encoders(),
        empty="No encoders yet. Add one: ft dataset encoder add FOLDER NAME.vN",
    )
