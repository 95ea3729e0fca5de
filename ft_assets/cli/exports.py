"""``ft export``: an adapter and its base as one model, in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import actor, api


def export(
    source: Annotated[
        str,
        typer.Argument(help="An adapter's address, a line (tenant.dataset.recipe), or a pair ('DATASET|RECIPE')."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Target folder; must not exist yet.")],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="merged: adapter and base as one model in the base's dtype (safetensors). gguf-q8_0, "
            "gguf-q5_k_m, gguf-q4_k_m: merged and quantised for llama.cpp and Ollama. gptq-w8a8, gptq-w4a16, "
            "awq-w4a16, fp8-dynamic: merged and quantised for vLLM.",
        ),
    ] = "merged",
) -> None:
    """Export an adapter for other engines. The export is created and gated again in workers, unless it already
    exists.
    """
    from ft_assets.cli.output import note

    exported = api.export(source, out, format=format, actor=actor())
    files = exported.artifact.manifest.files.values()
    print(exported.artifact.address)
    if exported.served_on:
        note(f"vLLM serves it on {exported.served_on}")
    if exported.report is None:
        note("ungated: the recipe has no gates, so the export was not judged")
    else:
        note(f"all gates passed again, as good as the adapter; evaluation: {exported.report.address}")
    note(f"{len(files)} files, {sum(entry.size for entry in files):,} bytes, verified, in {out}")
