"""Check the configuration of a spaCy model without spaCy: find the components that find names, and require spaCy's own.

The kept part may only call functions of spaCy that are listed here. The configuration is written again from the checked
values, so that spaCy reads nothing else.
"""

import configparser
import io
import json
import re
from pathlib import Path
from typing import Any

from ft_resources.errors import BadBase

SAVE = "Name a folder that nlp.to_disk wrote (in an installed model's package: the folder with config.cfg)."
FILES = {"ner": ("cfg", "model", "moves"), "tok2vec": ("cfg", "model")}
"""Factories of the components that are kept, with the files of each."""
# spaCy's other components, which are left out.
_OTHERS = frozenset(
    {
        *("attribute_ruler", "entity_linker", "entity_ruler", "lemmatizer", "merge_entities", "merge_noun_chunks"),
        *("morphologizer", "parser", "senter", "sentencizer", "span_ruler", "spancat", "tagger", "textcat"),
        *("textcat_multilabel", "trainable_lemmatizer"),
    }
)
_CALLED = re.compile(
    r"spacy\.(?:TransitionBasedParser|HashEmbedCNN|Tok2Vec|Tok2VecListener|MultiHashEmbed|CharacterEmbed"
    r"|MaxoutWindowEncoder|MishWindowEncoder|Tokenizer|Vectors|ner_scorer)\.v[0-9]"
)
_REFERENCE = re.compile(r"\$\{([\w.-]+)[.:](\w+)\}")
_LISTENER = "spacy.Tok2VecListener."
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_COMPONENT = re.compile(r"[A-Za-z0-9_-]+")
_CALLBACKS = ("before_creation", "after_creation", "after_pipeline_creation")
_TOKENIZER = {"@tokenizers": "spacy.Tokenizer.v1"}

Config = dict[str, dict[str, Any]]
"""The sections of a config.cfg by name, with their values as JSON."""


def read_config(folder: Path, where: str) -> Config:
    """The configuration in ``folder``. Raises BadBase if there is none."""
    read = _parser()
    try:
        read.read_string((folder / "config.cfg").read_text("utf-8"))
        return {name: {key: _value(text) for key, text in read.items(name)} for name in read.sections()}
    except (OSError, ValueError, configparser.Error) as error:
        raise BadBase("config.cfg is missing or not a configuration of spaCy", where=where, remedy=SAVE) from error


def _parser() -> configparser.ConfigParser:
    """One that keeps the case of keys, as spaCy does."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    return parser


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # References to other values, such as ${paths.vectors}, are not JSON.
        return text


def kept_components(config: Config, where: str) -> dict[str, str]:
    """The components that find names, by name with their factory. Raises BadBase for what is not spaCy's own."""
    nlp = config.get("nlp", {})
    factories = {str(name): config.get(f"components.{name}", {}).get("factory") for name in nlp.get("pipeline") or ()}
    for name, factory in factories.items():
        if not _COMPONENT.fullmatch(name) or factory not in _OTHERS | set(FILES):
            raise BadBase(
                f"its component {name!r} is made by {factory!r}, which is not a part of spaCy",
                where=f"{where}, config.cfg",
                remedy="Use a model of spaCy's own components; code of other packages is never loaded.",
            )
    active = [name for name in factories if name not in (nlp.get("disabled") or ())]
    finders = [name for name in active if factories[name] == "ner"]
    if len(finders) != 1:
        what = f"it has several active components ner ({', '.join(finders)})" if finders else "it has no active ner"
        raise BadBase(what, where=f"{where}, config.cfg", remedy="Use a model with one, which finds the names.")
    parts = _within(config, finders[0]).values()
    listens = any(str(values.get("@architectures")).startswith(_LISTENER) for values in parts)
    return {
        name: str(factories[name]) for name in active if name in finders or (listens and factories[name] == "tok2vec")
    }


def _within(config: Config, component: str) -> Config:
    """The sections of one component."""
    return {name: values for name, values in config.items() if f"{name}.".startswith(f"components.{component}.")}


def checked_config(config: Config, kept: dict[str, str], where: str) -> str:
    """The configuration of ``kept`` alone, as config.cfg. Raises BadBase if it calls anything that is not listed
    here."""
    nlp = config["nlp"]
    sections: Config = {
        "nlp": {"lang": language_of(config, where), "pipeline": list(kept), "disabled": [], "batch_size": 1},
        **{name: values for name, values in config.items() if name.startswith("nlp.")},
        "components": {},
    }
    sections["nlp"] |= dict.fromkeys(_CALLBACKS) | {name: nlp[name] for name in (*_CALLBACKS, "vectors") if name in nlp}
    if "nlp.tokenizer" not in sections:
        # The default tokenizers of some languages need further packages.
        sections["nlp"]["tokenizer"] = nlp.get("tokenizer", _TOKENIZER)
    for component in kept:
        sections |= _within(config, component)
    written = _parser()
    for section, values in sections.items():
        written.add_section(section)
        for key, given in values.items():
            value = _resolved(given, config)
            if _foreign(key, value):
                raise BadBase(
                    f"its configuration calls {value!r}, which is not loaded here",
                    where=f"{where}, config.cfg, [{section}] {key}",
                    remedy="Use a model of spaCy's own components, with spaCy's own tokenizer.",
                )
            written.set(section, key, json.dumps(value))
    text = io.StringIO()
    written.write(text)
    return text.getvalue()


def language_of(config: Config, where: str) -> str:
    """The language's code, ``xx`` for any. Raises BadBase if it is not one."""
    language = str(config.get("nlp", {}).get("lang"))
    if not _LANGUAGE.fullmatch(language):
        raise BadBase(f"{language!r} is not a language of spaCy", where=f"{where}, config.cfg", remedy=SAVE)
    return language


def _resolved(value: Any, config: Config) -> Any:
    """The value that ``${section.key}`` or ``${section:key}`` refers to; any other value itself."""
    reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return config.get(reference[1], {}).get(reference[2], value) if reference else value


def _foreign(key: str, value: Any) -> bool:
    """Whether spaCy would call a function that is not listed here, or read another section, for ``value``."""
    if isinstance(value, dict):
        return any(_foreign(name, inner) for name, inner in value.items())
    if isinstance(value, list):
        return any(_foreign("", inner) for inner in value)
    if key.startswith("@"):
        return not _CALLED.fullmatch(str(value))
    return "${" in str(value) or (key in _CALLBACKS and value is not None)
