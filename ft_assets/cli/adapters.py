"""``ft adapter``: take accepted adapters home."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_resources.artifacts import Artifact

app = typer.Typer(no_args_is_help=True, help="Accepted adapters.")
Source = Annotated[str, typer.Argument(help="An adapter's address, or a line (tenant.dataset.recipe).")]
Target = Annotated[Path, typer.Argument(help="Target folder; must not exist yet.")]


@app.command()
def download(source: Source, target: Target) -> None:
    """Download an adapter and verify every byte. TARGET is created only when the copy is complete."""
    from ft_assets.cli.output import note

    adapter = api.download_adapter(source, target)
    _tell(adapter, target)
    if "adapter_config.json" in adapter.manifest.files:
        get = f"ft adapter base {short(str(adapter.address))} {target}-base --for {target}"
        note(f"fetch its base, for AutoPeftModelForCausalLM.from_pretrained({str(target)!r}): {get}")


@app.command()
def base(
    source: Source,
    target: Target,
    adapter: Annotated[
        Path | None,
        typer.Option("--for", help="Folder of the downloaded adapter: PEFT then loads it onto TARGET."),
    ] = None,
) -> None:
    """Download an adapter's base model, and verify every byte."""
    from ft_assets.cli.output import note

    _tell(api.download_base(source, target, adapter=adapter or ""), target)
    if adapter is not None:
        note(f"{adapter} now names it as its base: AutoPeftModelForCausalLM.from_pretrained({str(adapter)!r})")
        if (adapter / "model.sig").exists():
            note("the downloaded signature no longer matches adapter_config.json")


@app.command()
def sign(source: Source) -> None:
    """Sign an adapter and its promotions with the key of FT_SIGNING_KEY. New promotions are signed automatically."""
    from ft_assets.cli.output import note

    adapter, new = api.sign_adapter(source)
    print(adapter.address)
    note("signed" if new else "already signed with this key")


@app.command("list")
def list_(tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "") -> None:
    """List the accepted adapters, newest last."""
    from ft_assets.cli.output import print_table

    rows = [
        (artifact.facts["line"], artifact.manifest.created_at, short(str(artifact.address)))
        for artifact in api.list_adapters(tenant=tenant)
    ]
    print_table(("line", "accepted", "address"), rows, empty="No adapters yet. Make one: ft run DATASET RECIPE")


def _tell(artifact: "Artifact", target: Path) -> None:
    from ft_assets.cli.output import note

    size = sum(entry.size for entry in artifact.manifest.files.values())
    print(artifact.address)
    note(f"{len(artifact.manifest.files)} files, {size:,} bytes, verified, in {target}")
