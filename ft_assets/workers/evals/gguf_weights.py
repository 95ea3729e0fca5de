"""Weights quantised for llama.cpp (GGUF): an evaluation dequantises them and computes with the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ft_resources.errors import BadBase, Misconfigured

GGUF = "model.gguf"
"""The file with the weights, beside the model's configuration."""


def weights_of(folder: Path) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for the weights in ``folder``: safetensors, or else ``GGUF``.

    Raises BadBase for GGUF of an architecture that Transformers does not read, and Misconfigured without its reader.
    """
    if not (folder / GGUF).is_file():
        return {"use_safetensors": True}
    require_reader()
    from transformers import AutoConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    try:
        load_gguf_checkpoint(str(folder / GGUF))
    except ValueError as error:
        raise _unread(error) from error
    # The configuration beside the file says more than the file itself.
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    return {"gguf_file": GGUF, "config": config}


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Around ``from_pretrained`` of ``folder``: raise BadBase where Transformers has no names for the tensors of its
    GGUF, as for Mixtral, whose file calls itself a Llama."""
    try:
        yield
    except NotImplementedError as error:
        if not (folder / GGUF).is_file():
            raise
        raise _unread(error) from error


def require_reader() -> None:
    """Raise Misconfigured unless the package that reads GGUF is installed."""
    if find_spec("gguf") is None:
        raise Misconfigured(
            "the package gguf is not installed; an evaluation needs it to read a GGUF file",
            where="the worker's Python environment",
            remedy="Install the platform with the extra gguf.",
        )


def _unread(error: Exception) -> BadBase:
    return BadBase(
        f"Transformers cannot read GGUF of this architecture, so it cannot be evaluated ({error})",
        where=GGUF,
        remedy="Export it as merged. llama.cpp's own converter can make GGUF from that, but no gate judges the result.",
    )
