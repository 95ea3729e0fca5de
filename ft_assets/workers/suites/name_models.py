"""spaCy models that find names and places: named, immutable, never pickles or code.

A folder is checked by its text files alone, without spaCy. Only the files of the components that find names are kept:
``ner``, and ``tok2vec`` if ``ner`` listens to one. spaCy stores their weights as msgpack, which cannot contain objects.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.records.named import add_named
from ft_assets.settings.dataset.recogniser import Entity
from ft_assets.settings.keys import check_name_model_key
from ft_assets.workers.suites.spacy_config import (
    FILES,
    SAVE,
    checked_config,
    kept_components,
    language_of,
    read_config,
)
from ft_resources.artifacts import InputRef
from ft_resources.errors import BadBase
from ft_resources.json_object import json_object
from ft_resources.store import Store

LABELS: dict[str, Entity] = {
    **dict.fromkeys(("PERSON", "PER"), "PERSON"),
    **dict.fromkeys(("LOCATION", "LOC", "GPE", "FAC", "ADDRESS", "STREET_ADDRESS"), "LOCATION"),
}
"""Labels of models, with the policy's entity for each."""

_COMMON = ("meta.json", "config.cfg", "tokenizer")
_VOCAB = ("key2row", "lookups.bin", "strings.json", "vectors", "vectors.cfg")
_OPTIONAL = ("vocab/key2row", "vocab/vectors", "vocab/vectors.cfg")


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredNameModel:
    """The result of adding: ``language`` as spaCy names it (``xx``: any), ``entities`` that the model can find.

    ``created`` is False if the same model already existed.
    """

    key: str
    ref: InputRef
    language: str
    entities: tuple[str, ...]
    created: bool


def add_name_model(store: Store, folder: Path, key: str, *, actor: str) -> RegisteredNameModel:
    """Store the spaCy pipeline in ``folder`` under ``key`` (``name.vN``).

    Nothing is written if anything is wrong. Raises BadBase for any other folder, and for a model that needs code or
    components other than spaCy's own; BadRecipe if other content has the key; UserError for a malformed key.
    """
    check_name_model_key(key)
    where = str(folder)
    config = read_config(folder, where)
    language, kept = language_of(config, where), kept_components(config, where)
    meta = _meta(folder, where)
    labels = meta.get("labels", {}).get(next(name for name, factory in kept.items() if factory == "ner"), [])
    entities = tuple(sorted({LABELS[label] for label in labels if label in LABELS}))
    if not entities:
        raise BadBase(
            f"it finds neither names nor places; its labels are {', '.join(labels) or 'none'}",
            where=f"{where}, meta.json",
            remedy=f"Use a model with some of the labels {', '.join(LABELS)}.",
        )
    facts = {"language": language, "entities": list(entities)}
    files = _files(folder, kept, where)
    with tempfile.TemporaryDirectory(prefix="ft-name-model-") as scratch:
        files["config.cfg"] = Path(scratch) / "config.cfg"
        files["config.cfg"].write_text(checked_config(config, kept, where), encoding="utf-8")
        ref, created = add_named(store, "name_model", key, files, source=where, facts=facts, actor=actor)
    return RegisteredNameModel(key=key, ref=ref, language=language, entities=entities, created=created)


def _meta(folder: Path, where: str) -> dict[str, Any]:
    try:
        data = (folder / "meta.json").read_bytes()
    except OSError as error:
        raise BadBase("meta.json is missing", where=where, remedy=SAVE) from error
    return json_object(data, BadBase, where=where, remedy=SAVE, what="meta.json", members={"labels": dict})


def _files(folder: Path, kept: dict[str, str], where: str) -> dict[str, Path]:
    names = [*_COMMON, *(f"vocab/{name}" for name in _VOCAB)]
    names += [f"{component}/{name}" for component, factory in kept.items() for name in FILES[factory]]
    found = {}
    for name in names:
        path = folder / name
        if path.is_symlink() or path.parent.is_symlink():
            remedy = "Copy the folder with its targets (cp -rL) and name the copy."
            raise BadBase(f"{name} is a symbolic link", where=where, remedy=remedy)
        if path.is_file():
            found[name] = path
        elif name not in _OPTIONAL:
            raise BadBase(f"{name} is missing", where=where, remedy=SAVE)
    return found
