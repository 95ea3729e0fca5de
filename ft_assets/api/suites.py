"""What recipes and dataset policies name: suites, classifiers for toxicity, encoders for paraphrases, name models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.records.named import list_named
from ft_assets.workers.suites import classifiers, encoders, name_models, registered, suites
from ft_assets.workers.suites.catalogue import hub, install, installing
from ft_assets.workers.suites.catalogue.catalogue import read_catalogue
from ft_assets.workers.suites.catalogue.chosen import Left as Left
from ft_assets.workers.suites.classifiers import RegisteredClassifier
from ft_assets.workers.suites.encoders import Pooling, RegisteredEncoder
from ft_assets.workers.suites.name_models import RegisteredNameModel
from ft_assets.workers.suites.suites import RegisteredSuite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class ListedSuite:
    """A registered suite and the digest of its files."""

    key: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class CatalogueFile:
    """A file that a suite is made of: ``path`` below the folder of ``--offline``; digest and size in bytes unpacked."""

    path: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class CatalogueSuite:
    """A suite that can be installed. ``sources`` are repositories with what is to be known of them.

    ``items`` is None where the data are on the Hub and installing takes a commit; ``*`` in such a ``key`` stands for
    one of ``variants``, and ``patterns`` are of its files there.
    """

    key: str
    group: str
    what: str
    paper: str
    items: int | None
    licences: tuple[str, ...]
    sources: tuple[str, ...]
    files: tuple[CatalogueFile, ...] = ()
    patterns: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


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


def suite_catalogue() -> list[CatalogueSuite]:
    """The public benchmarks that ``install_suites`` can install. Reads no store."""
    catalogue, found = read_catalogue(), []
    for key, entry in catalogue.suites.items():
        sources = catalogue.sources_of(key).values()
        files = []
        for path in catalogue.needs(key):
            source, name = catalogue.file(path)
            file, place = source.files[name], f"{path}.gz" if source.files[name].packed else path
            files.append(CatalogueFile(path=place, url=source.url(name), sha256=file.sha256, size=file.bytes))
        found.append(
            CatalogueSuite(
                key=key,
                group=entry.group,
                what=entry.what,
                paper=entry.paper,
                items=entry.items,
                licences=tuple(dict.fromkeys(source.licence for source in sources)) or (install.MADE["licence"],),
                sources=tuple(
                    (source.repo or source.origin) + (f" ({source.note})" if source.note else "") for source in sources
                )
                or (install.MADE["source"],),
                files=tuple(files),
            )
        )
    for key, hub_entry in hub.hub_entries().items():
        found.append(
            CatalogueSuite(
                key=key,
                group=hub_entry.group,
                what=hub_entry.what,
                paper=hub_entry.paper,
                items=None,
                licences=(hub_entry.licence,),
                sources=(f"hub:{hub_entry.repo}",),
                patterns=tuple(patterns[0].replace("VARIANT", "*") for patterns in hub_entry.files.values()),
                variants=tuple(hub_entry.variants),
            )
        )
    return found


def install_suites(
    names: Sequence[str],
    *,
    offline: Path | str | None = None,
    source: str = "",
    store: Store | None = None,
    actor: str = "",
) -> list[RegisteredSuite]:
    """Fetch, check and register suites of the catalogue: groups (``general``, ``code``, ``instruct``, ``safety``,
    ``multilingual``, ``offline``) or suites by name. Those that are installed stay as they are.

    Of a group, suites that need a commit or a package first are left out; ``suites_left`` tells them.

    Args:
        offline: a folder with the files, each at its ``path``, those of data sets at ORG/NAME/PATH; None fetches them.
        source: ``hub:ORG/NAME@COMMIT``, for suites whose data are on the Hub; of a group those that are of this data
            set.

    Raises UserError for an unknown name, and where nothing of a group can be installed so; BadRecipe for a key that is
    taken by another suite and for files with other bytes than the pinned ones, SourceUnavailable where there is no
    network or no such file; with ``source`` BadRecipe for a data set that is not the suite's, BadBase and
    HubUnavailable.
    """
    store = store_or_default(store, create=True)
    folder = None if offline is None else Path(offline)
    return installing.install_chosen(store, names, source, actor_or_user(actor), folder)


def suites_left(names: Sequence[str], *, offline: Path | str | None = None, store: Store | None = None) -> list[Left]:
    """The suites of the groups among ``names`` that are not installed, as they need a commit of the user's choice or a
    Python package first: what they need, and the command. Raises UserError for an unknown name."""
    return installing.left_of(store_or_default(store), names, None if offline is None else Path(offline))


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


def add_encoder(
    source: str, key: str, *, pooling: Pooling | None = None, store: Store | None = None, actor: str = ""
) -> RegisteredEncoder:
    """Store a transformers text encoder, a folder or ``hub:org/name@revision``, as ``key`` (``name.vN``).

    ``pooling``: what a text's vector is made of; None: what the folder says, else ``mean``. Raises BadBase for what is
    no such folder, BadRecipe for a key that is taken by other content, UserError for a malformed key, HubUnavailable.
    """
    store = store_or_default(store, create=True)
    return encoders.add_encoder(store, source, key, pooling=pooling, actor=actor_or_user(actor))


def list_encoders(*, store: Store | None = None) -> list[tuple[str, str]]:
    """All registered encoders in order of their keys, each with its pooling."""
    store = store_or_default(store)
    refs = ((key, registered.get_encoder(store, key)) for key in list_named(store, "encoder"))
    return [(key, Artifacts(store).get(Address.parse(ref.address)).facts["pooling"]) for key, ref in refs]


def add_name_model(folder: Path | str, key: str, *, store: Store | None = None, actor: str = "") -> RegisteredNameModel:
    """Store the spaCy pipeline in ``folder`` as ``key`` (``name.vN``), to find names and places with.

    Only what finds names is kept. Raises BadBase for what is no such folder or needs code of other packages, BadRecipe
    for a key that is taken by other content, UserError for a malformed key; nothing is written then.
    """
    store = store_or_default(store, create=True)
    return name_models.add_name_model(store, Path(folder), key, actor=actor_or_user(actor))


def list_name_models(*, store: Store | None = None) -> list[tuple[str, str, tuple[str, ...]]]:
    """All registered name models in order of their keys, each with its language and the entities it finds."""
    store = store_or_default(store)
    found = []
    for key in list_named(store, "name_model"):
        facts = Artifacts(store).get(Address.parse(registered.get_name_model(store, key).address)).facts
        found.append((key, facts["language"], tuple(facts["entities"])))
    return found
