"""What recipes and dataset policies name: evaluation suites, and text classifiers for the toxicity screen."""

from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.workers.suites import classifiers, registered, suites
from ft_assets.workers.suites.classifiers import RegisteredClassifier
from ft_assets.workers.suites.suites import RegisteredSuite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class ListedSuite:
    """A registered suite and the digest of its files."""

    key: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class ListedClassifier:
    """A registered classifier, its labels and the digest of its files."""

    key: str
    digest: str
    labels: tuple[str, ...]


def add_suite(folder: Path | str, key: str, *, store: Store | None = None, actor: str = "") -> RegisteredSuite:
    """Register a folder with one task file and the data it reads as ``key`` (``name.vN``).

    Raises BadRecipe for a folder that is not a suite and for a key that is taken by other content; nothing is written
    then.
    """
    return suites.add_suite(store_or_default(store, create=True), Path(folder), key, actor_or_user(actor))


def list_suites(*, store: Store | None = None) -> list[ListedSuite]:
    """All registered suites in order of their keys."""
    store = store_or_default(store)
    return [
        ListedSuite(key=key, digest=registered.get_suite(store, key).digest) for key in registered.list_suites(store)
    ]


def add_classifier(source: str, key: str, *, store: Store | None = None, actor: str = "") -> RegisteredClassifier:
    """Store a transformers sequence classifier, a folder or ``hub:org/name@revision``, as ``key`` (``name.vN``).

    Raises BadBase for what is no such folder, BadRecipe for a key that is taken by other content, UserError for a
    malformed key, HubUnavailable; nothing is written then.
    """
    return classifiers.add_classifier(store_or_default(store, create=True), source, key, actor=actor_or_user(actor))


def list_classifiers(*, store: Store | None = None) -> list[ListedClassifier]:
    """All registered classifiers in order of their keys."""
    store = store_or_default(store)
    found = []
    for key in classifiers.list_classifiers(store):
        ref = registered.get_classifier(store, key)
        labels = Artifacts(store).get(Address.parse(ref.address)).facts["labels"]
        found.append(ListedClassifier(key=key, digest=ref.digest, labels=tuple(labels)))
    return found
