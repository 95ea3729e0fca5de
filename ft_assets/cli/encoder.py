"""``ft dataset encoder``: text encoders for the search for paraphrased test items."""

from typing import Annotated, Literal

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="Text encoders that a dataset policy's search for paraphrases can name.")


@app.command()
def add(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A transformers encoder (safetensors), or hub:ORG/NAME@REVISION.")
    ],
    key: Annotated[
        str, typer.Argument(metavar="NAME.vN", help="Its key, such as e5.v1. A key's encoder never changes.")
    ],
    pooling: Annotated[
        Literal["mean", "cls"] | None,
        typer.Option(help="A text's vector: the mean of its tokens', or the first one's. Default: as the folder says."),
    ] = None,
) -> None:
    """Add the encoder in FOLDER under the key NAME.vN."""
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
