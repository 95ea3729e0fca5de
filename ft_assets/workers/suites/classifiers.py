"""Text classifiers for the toxicity screen: named, immutable, addressed by content, never pickles or code."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ft_assets.records.named import add_named, list_named
from ft_assets.settings.keys import check_classifier_key
from ft_assets.workers.base_models.contents import base_json, inspect_base
from ft_assets.workers.suites.fetched_models import fetch_model
from ft_resources.artifacts import InputRef
from ft_resources.errors import BadBase, UserError
from ft_resources.hub import Hub
from ft_resources.store import Store
from ft_resources.strict import nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredClassifier:
    """The result of adding; ``created`` is False if the same classifier already existed."""

    key: str
    ref: InputRef
    labels: tuple[str, ...]
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierFacts:
    """Facts from a model's ``config.json``: its labels in order, and whether several can apply at once."""

    labels: tuple[str, ...]
    multi_label: bool


def add_classifier(store: Store, source: str, key: str, *, actor: str, hub: Hub | None = None) -> RegisteredClassifier:
    """Store the classifier in ``source`` (a folder, or ``hub:org/name@revision``) under ``key`` (``name.vN``).

    A folder of a transformers sequence classifier: configuration, fast tokenizer, safetensors weights. Nothing is
    written if anything is wrong. Raises BadBase for any other folder (pickles, code, links, no labels), BadRecipe if
    other content has the key, UserError for a malformed key, HubUnavailable.
    """
    check_classifier_key(key)
    with tempfile.TemporaryDirectory(prefix="ft-classifier-") as scratch:
        folder = fetch_model(source, Path(scratch), hub)
        architecture = inspect_base(folder, source, template_given=True).architecture
        facts = read_facts(folder, source)
        files = {path.name: path for path in sorted(folder.iterdir()) if not path.name.startswith(".")}
        told = {"architecture": architecture, "labels": list(facts.labels), "multi_label": facts.multi_label}
        ref, created = add_named(store, "classifier", key, files, source=source, facts=told, actor=actor)
    return RegisteredClassifier(key=key, ref=ref, labels=facts.labels, created=created)


def list_classifiers(store: Store) -> list[str]:
    """The keys of all registered classifiers, sorted."""
    return list_named(store, "classifier")


def require_labels(known: tuple[str, ...], wanted: tuple[str, ...], where: str) -> None:
    """Raise UserError for the first of ``wanted`` labels that a classifier does not have."""
    for label in wanted:
        if label not in known:
            raise UserError(
                f"the classifier has no label {label!r}; {nearest(label, list(known))}",
                where=where,
                remedy=f"Set toxicity.labels to some of: {', '.join(known)}.",
            )


def read_facts(folder: Path, where: str) -> ClassifierFacts:
    """Labels and kind of the classifier in ``folder``. Raises BadBase if its configuration does not describe one."""
    config = base_json(folder / "config.json", where)
    architecture = str((config.get("architectures") or [""])[0])
    if not architecture.endswith("ForSequenceClassification"):
        remedy = "Name a model that was saved as …ForSequenceClassification."
        raise BadBase(f"{architecture or 'this model'} is not a text classifier", where=where, remedy=remedy)
    named = config.get("id2label")
    if not isinstance(named, dict) or not named:
        raise _unnamed(where)
    labels = tuple(str(named.get(str(index), "")) for index in range(len(named)))
    if not all(labels) or len(set(labels)) < len(labels):
        raise _unnamed(where)
    problem = config.get("problem_type")
    multi_label = problem == "multi_label_classification"
    if problem == "regression" or (len(labels) == 1 and not multi_label):
        remedy = "Use a classifier whose outputs are labels."
        raise BadBase("this model gives a number, not labels (regression)", where=where, remedy=remedy)
    return ClassifierFacts(labels=labels, multi_label=multi_label)


def _unnamed(where: str) -> BadBase:
    remedy = 'Give config.json an id2label with a name for each output: {"0": "ok", "1": "toxic"}.'
    return BadBase("config.json does not name the labels", where=where, remedy=remedy)
