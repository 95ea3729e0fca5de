"""Text encoders for the search for paraphrased test items: named, immutable, never pickles or code."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ft_assets.records.named import add_named
from ft_assets.settings.keys import check_encoder_key
from ft_assets.workers.base_models.contents import inspect_base
from ft_assets.workers.suites.fetched_models import fetch_model
from ft_resources.artifacts import InputRef
from ft_resources.errors import BadBase
from ft_resources.hub import Hub
from ft_resources.json_object import json_object
from ft_resources.store import Store

Pooling = Literal["mean", "cls"]
_POOLING_FILE = Path("1_Pooling") / "config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredEncoder:
    """The result of adding; ``created`` is False if the same encoder already existed."""

    key: str
    ref: InputRef
    pooling: Pooling
    created: bool


def add_encoder(
    store: Store, source: str, key: str, *, pooling: Pooling | None, actor: str, hub: Hub | None = None
) -> RegisteredEncoder:
    """Store the encoder in ``source`` (a folder, or ``hub:org/name@revision``) under ``key`` (``name.vN``).

    ``pooling`` makes a text's vector: the mean of its tokens' vectors, or the first token's. None: as configured in a
    folder of sentence-transformers, else the mean. Raises BadBase for anything but a transformers model with a fast
    tokenizer and safetensors weights, BadRecipe if other content has the key, UserError for a malformed key,
    HubUnavailable.
    """
    check_encoder_key(key)
    with tempfile.TemporaryDirectory(prefix="ft-encoder-") as scratch:
        folder = fetch_model(source, Path(scratch) / "hub", hub)
        pooling = pooling or _pooling_of(folder, source)
        flat = Path(scratch) / "flat"
        flat.mkdir()
        # The folders of sentence-transformers beside the model's own files are not used otherwise.
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                shutil.copyfile(path, flat / path.name)
        architecture = inspect_base(flat, source, template_given=True).architecture
        files = {path.name: path for path in sorted(flat.iterdir())}
        told = {"architecture": architecture, "pooling": pooling}
        ref, created = add_named(store, "encoder", key, files, source=source, facts=told, actor=actor)
    return RegisteredEncoder(key=key, ref=ref, pooling=pooling, created=created)


def _pooling_of(folder: Path, source: str) -> Pooling:
    file = folder / _POOLING_FILE
    if not file.is_file():
        return "mean"
    remedy = "Copy the encoder's folder again."
    settings = json_object(file.read_bytes(), BadBase, where=f"{source}, {_POOLING_FILE}", remedy=remedy)
    chosen = [name for name in settings if name.startswith("pooling_mode_") and settings[name] is True]
    if chosen == ["pooling_mode_mean_tokens"]:
        return "mean"
    if chosen == ["pooling_mode_cls_token"]:
        return "cls"
    raise BadBase(
        f"its pooling ({', '.join(chosen) or 'none'}) is not supported",
        where=f"{source}, {_POOLING_FILE}",
        remedy="Use an encoder that takes the mean of the tokens or the first token.",
    )
