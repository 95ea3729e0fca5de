"""What a base model's folder must contain, and what it must never contain: pickles, code, links, unknown files.

The same rules apply to a user's folder, a hub repository and the mirrored copy.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.composites import require_text_part, text_settings
from ft_assets.workers.base_models.weights import count_parameters
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.templates.template import check_template
from ft_resources.errors import BadBase
from ft_resources.json_object import JsonObject, Kind, json_object, require_kinds

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
NO_TEMPLATE = "the base has no chat template and the recipe names none"
NAME_TEMPLATE = (
    "Write chat_template: plain into the recipe, or name the template's file there; or take a base that has one. cpt "
    "needs none, unless a suite asks the model for answers."
)
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._+=@-]*$")
_SAFE_SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".md", "tokenizer.model")
_SAFE_NAMES = re.compile(r"^(LICENSE|NOTICE|COPYING|USE_POLICY|README)[A-Za-z0-9_-]*(\.(rst|html|pdf))?$")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz")
# A pickle starts with its protocol number; torch's newer files are zip archives of pickles.
_PICKLE_MAGIC = re.compile(rb"^(?:\x80[\x01-\x05]|PK\x03\x04)")
# The files a tokenizer may consist of; see transformers' PreTrainedTokenizerBase.save_pretrained.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
)
# Preprocessing of images for the vision part of a composite: not used here, but part of a whole model.
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
# The kinds of members that are read as such, here and in workers; PreTrainedConfig describes them.
_MEMBERS: Mapping[str, Mapping[str, Kind]] = {
    "config.json": {
        **dict.fromkeys(("model_type", "dtype", "torch_dtype"), str),
        **dict.fromkeys(("architectures", "layer_types"), list),
        **dict.fromkeys(("text_config", "rope_parameters", "rope_scaling", "quantization_config", "id2label"), dict),
        "vocab_size": int,
    },
    "tokenizer_config.json": {"added_tokens_decoder": dict, "model_max_length": (int, float)},
    INDEX: {"weight_map": dict, "metadata": dict},
}
# The keys of these files are pieces of text, so any key may occur.
_TOKEN_LISTS = ("tokenizer.json", "vocab.json", "added_tokens.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseFacts:
    """Facts read from a valid folder; ``template`` is the base's own chat template, None if it has none."""

    architecture: str
    parameters: int
    template: str | None


def list_folder(folder: Path, where: str) -> list[str]:
    """The file names in a model's folder, sorted, without hidden files. Raises BadBase for forbidden files."""
    if not folder.is_dir():
        raise BadBase(f"there is no folder {folder}", where=where, remedy="Give the path of the model's folder.")
    names = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_symlink():
            remedy = "Copy the folder with its targets (cp -rL) and name the copy."
            raise BadBase(f"{path.name} is a symbolic link", where=where, remedy=remedy)
        if path.is_dir():
            remedy = "Name a folder that holds only the model's own files."
            raise BadBase(f"{path.name} is a folder inside the model's folder", where=where, remedy=remedy)
        if not path.is_file():
            # Reading a pipe would wait for ever.
            raise BadBase(
                f"{path.name} is not a regular file", where=where, remedy="Remove it, or name another folder."
            )
        if not is_safe_name(path.name):
            raise _refused_name(path.name, where)
        names.append(path.name)
    return names


def is_safe_name(name: str) -> bool:
    """Whether a file with this name may be part of a base model."""
    return bool(_NAME.match(name)) and (name.endswith(_SAFE_SUFFIXES) or bool(_SAFE_NAMES.match(name)))


def check_names(names: Iterable[str], where: str) -> None:
    """Raise BadBase if the configuration, the tokenizer or the safetensors weights are missing."""
    present = set(names)
    if "adapter_config.json" in present:
        remedy = "Merge the adapter into its base first, or name the base."
        raise BadBase("this is an adapter, not a base model", where=where, remedy=remedy)
    if "config.json" not in present:
        raise BadBase("config.json is missing", where=where, remedy="Name a folder made by save_pretrained.")
    if "tokenizer.json" not in present:
        remedy = "Save the fast tokenizer into it: AutoTokenizer.from_pretrained(…).save_pretrained(FOLDER)."
        raise BadBase("tokenizer.json is missing: a base needs its tokenizer", where=where, remedy=remedy)
    if SINGLE not in present and INDEX not in present:
        remedy = "Save the weights as safetensors (save_pretrained does); pickles are never loaded."
        raise BadBase(f"it has no safetensors weights ({SINGLE} or {INDEX})", where=where, remedy=remedy)


def weight_files(folder: Path, where: str) -> list[str]:
    """The files that hold the weights: the index's shards if there is an index, else the single file."""
    if not (folder / INDEX).exists():
        return [SINGLE]
    shards = [*(base_json(folder / INDEX, where).get("weight_map") or {}).values()]
    if not shards or not all(
        isinstance(name, str) and _NAME.match(name) and name.endswith(".safetensors") for name in shards
    ):
        raise BadBase(f"{INDEX} does not list safetensors files", where=where, remedy="Save the model again.")
    return sorted(set(shards))


def check_texts(folder: Path, where: str, *, template_given: bool) -> tuple[str, str | None]:
    """(architecture, own chat template), from all files but the weights.

    Raises BadBase for files that are not what their name says, for a model that brings its own code, and for one
    without a chat template unless ``template_given`` (the recipe names one, or needs none).
    """
    for path in sorted(folder.iterdir()):
        if path.suffix != ".safetensors" and not path.name.startswith("."):
            _check_text(path, where)
    try:
        from tokenizers import Tokenizer

        Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:
        # The Rust library raises a bare Exception.
        remedy = "Save the tokenizer again with a current version of transformers."
        raise BadBase(f"tokenizer.json cannot be read ({str(error)[:200]})", where=where, remedy=remedy) from error
    template = own_template(folder)
    if template is None and not template_given:
        raise BadBase(NO_TEMPLATE, where=where, remedy=NAME_TEMPLATE)
    if template is not None and not template_given:
        check_template(template, f"{where}, chat template")
    config = base_json(folder / "config.json", where)
    require_text_part(config, where)
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise BadBase("config.json names no architecture", where=where, remedy="Save the model with save_pretrained.")
    return architectures[0], template


def inspect_base(folder: Path, where: str, *, template_given: bool) -> BaseFacts:
    """Check a whole folder, weights included, and read its facts. Raises BadBase for the first problem."""
    names = list_folder(folder, where)
    check_names(names, where)
    architecture, template = check_texts(folder, where, template_given=template_given)
    shards = weight_files(folder, where)
    missing = [name for name in shards if name not in names]
    if missing:
        raise BadBase(f"{missing[0]} is listed in {INDEX} and missing", where=where, remedy="Copy the model again.")
    extra = [name for name in names if name.endswith(".safetensors") and name not in shards]
    if extra:
        remedy = "Remove it, or save the model again; only the weights that get loaded belong here."
        raise BadBase(f"{extra[0]} does not belong to the model's weights", where=where, remedy=remedy)
    parameters = sum(count_parameters(folder / name, where) for name in shards)
    return BaseFacts(architecture=architecture, parameters=parameters, template=template)


def tokenizer_files(names: Iterable[str]) -> list[str]:
    """The files among ``names`` that decide how text becomes tokens, sorted."""
    return sorted(name for name in names if name in TOKENIZER_FILES)


def _refused_name(name: str, where: str) -> BadBase:
    if name.endswith(_PICKLES):
        remedy = "Save the weights as safetensors (model.save_pretrained(FOLDER)) and remove this file."
        return BadBase(f"{name} may be a pickle, which runs code when it is loaded", where=where, remedy=remedy)
    if name.endswith(".py"):
        remedy = "Use a model whose architecture is part of transformers."
        return BadBase(f"{name} is code, which a base may not contain", where=where, remedy=remedy)
    remedy = f"Remove or rename it; a base holds {', '.join(_SAFE_SUFFIXES[:-1])} and licence files."
    return BadBase(f"{name} is not a file of a base model", where=where, remedy=remedy)


def _check_text(path: Path, where: str) -> None:
    """Reject disguised pickles, invalid JSON, and configurations that point to code."""
    with path.open("rb") as file:
        if _PICKLE_MAGIC.match(file.read(4)):
            remedy = "Remove it, and do not trust where it came from."
            raise BadBase(f"{path.name} is a pickle or an archive under another name", where=where, remedy=remedy)
    if path.suffix == ".json":
        value = _object(path, where)
        if path.name not in _TOKEN_LISTS and _holds_key(value, "auto_map"):
            remedy = "Use a model whose architecture is part of transformers."
            raise BadBase(f"{path.name} points to custom code (auto_map)", where=where, remedy=remedy)
        _require_kinds(path.name, value)
    elif path.suffix in (".jinja", ".txt"):
        try:
            path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise BadBase(f"{path.name} is not UTF-8 text", where=where, remedy="Copy the file again.") from error


def base_json(path: Path, where: str) -> JsonObject:
    """A file of a base, whose members are of the kinds that workers read. Raises BadBase for another."""
    found = _object(path, where)
    _require_kinds(path.name, found)
    return found


def _object(path: Path, where: str) -> JsonObject:
    remedy = "Copy the file again, or save the model with save_pretrained."
    return json_object(path.read_bytes(), BadBase, where=where, remedy=remedy, what=path.name)


def _require_kinds(name: str, found: JsonObject) -> None:
    sections = (found, text_settings(found)) if name == "config.json" else (found,)
    for section in sections:
        require_kinds(section, _MEMBERS.get(name, {}), found.error)


def _holds_key(value: Any, key: str) -> bool:
    """Whether ``key`` occurs at any depth; without recursion, as the value may be nested as deeply as JSON allows."""
    open_values = [value]
    while open_values:
        current = open_values.pop()
        if isinstance(current, dict):
            if key in current:
                return True
            open_values.extend(current.values())
        elif isinstance(current, list):
            open_values.extend(current)
    return False
