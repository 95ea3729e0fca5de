"""What is known of a recipe's base before training: from the mirror, the upload, the file or the lock."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.settings.catalogue.composites import parsed
from ft_assets.settings.recipe.base_ref import FolderPath
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.base_models.contents import weight_files
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.weights import count_parameters
from ft_assets.workers.model_size.model_size import Architecture, doubt_about, read_architecture
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import MissingInput

# The usual weight format on a hub.
_USUAL_BYTES_EACH = 2.0
_BYTES_EACH = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}
_ABSENT = "nothing: the base is not available"


@dataclass(frozen=True, kw_only=True)
class KnownBase:
    """A base as far as it is known.

    Args:
        architecture: None if neither config.json nor the weights' size is known.
        context: most tokens that it reads at once; None if not known.
        weight_bytes: size of the stored weights, 0 if unknown.
        digest: of the mirrored base, "" before it is mirrored.
        source: what the architecture was read from, in words.
        file: returns the bytes of one of its files, None if not available.
    """

    architecture: Architecture | None
    context: int | None
    weight_bytes: int
    digest: str
    source: str
    file: Callable[[str], bytes | None]


def base_of_recipe(artifacts: Artifacts, recipe_key: str) -> KnownBase:
    """The base of a registered recipe. Raises UserError for a key that was never registered."""
    lock = get_recipe(artifacts.store, recipe_key).lock
    try:
        base: Artifact | None = identity.base_model(artifacts, recipe_key)
    except MissingInput:
        # An upload is the base itself. An adapter is a whole model, or its own base has the merged model's size and
        # form.
        at_hand = lock.inputs.get("base") or lock.inputs.get("adapter") or lock.inputs.get("upload")
        base = artifacts.find(Address.parse(at_hand.address)) if at_hand else None
        digest = ""
    else:
        assert base is not None
        digest = base.digest

    def file(name: str) -> bytes | None:
        return base.read(name) if base is not None and name in base.manifest.files else None

    files = base.manifest.files if base is not None else lock.files
    weights = sum(entry.size for name, entry in files.items() if name.endswith(".safetensors"))
    parameters = base.facts.get("parameters") if base is not None else None
    return _known(file, parameters, weights, digest=digest, where=lock.source)


def base_of_file(recipe: Recipe, path: Path) -> KnownBase:
    """The base of an unregistered recipe file at ``path``: only a folder on this machine can be read.

    Raises BadBase for a folder with incomplete weights.
    """
    reference = recipe.base_reference
    folder = path.parent / reference.path.expanduser() if isinstance(reference, FolderPath) else None
    if folder is None or not (folder / "config.json").is_file():
        return _known(lambda _: None, None, 0, digest="", where="")
    shards = [folder / name for name in weight_files(folder, str(folder)) if (folder / name).is_file()]
    parameters = sum(count_parameters(shard, str(folder)) for shard in shards)

    def file(name: str) -> bytes | None:
        return (folder / name).read_bytes() if (folder / name).is_file() else None

    weights = sum(shard.stat().st_size for shard in shards)
    return _known(file, parameters or None, weights, digest="", where=str(folder))


def _known(
    file: Callable[[str], bytes | None], parameters: int | None, weights: int, *, digest: str, where: str
) -> KnownBase:
    stored = file("config.json")
    config = parsed(stored)
    counted = parameters is not None
    if parameters is None and weights:
        bytes_each = _BYTES_EACH.get(str(config.get("dtype", config.get("torch_dtype"))), _USUAL_BYTES_EACH)
        parameters = round(weights / bytes_each)
    # A count guessed from bytes gives a size, but is no evidence against config.json.
    believed = parameters if counted else None
    architecture = read_architecture(config, believed) if config else None
    if architecture is None and parameters:
        architecture = read_architecture(config, parameters)
    return KnownBase(
        architecture=architecture,
        context=context_length(stored),
        weight_bytes=weights,
        digest=digest,
        source=_source(architecture, config, where, doubt_about(config, believed), counted=counted),
        file=file,
    )


def _source(architecture: Architecture | None, config: dict[str, Any], where: str, doubt: str, *, counted: bool) -> str:
    if architecture is None:
        return f"nothing: {doubt}" if doubt else _ABSENT
    size = f"{architecture.parameters:,} parameters"
    if not architecture.rough:
        return f"{architecture.model_type} with {size}, from config.json"
    model_type = config.get("model_type")
    unknown = f"unknown architecture {model_type!r}" if model_type else f"{where} is not available yet"
    from_size = "counted" if counted else "guessed from the size of its weights"
    return f"rough: {doubt or unknown}; a usual decoder with {size}, {from_size}"
