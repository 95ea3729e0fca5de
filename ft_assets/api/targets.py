"""Names of artifacts: resolves keys, lines and addresses to artifacts, and artifacts to keys and file names."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from ft_assets.api.adapters import find_adapter
from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import store_or_default
from ft_assets.api.own_keys import own_dataset, own_pair, own_recipe
from ft_assets.control import identity
from ft_assets.records.names import DATASET, RECIPE
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.errors import CorruptArtifact, Deleted, HeldForReview, MissingInput, UserError
from ft_resources.store import Store

_VERSION = re.compile(r"\.v\d+$")
_UPLOADS = ("raw_dataset", "base_upload", "suite", "classifier", "encoder", "name_model")
_SHOWN_FILES = 3


def find_target(text: str, *, store: Store | None = None) -> Address:
    """The artifact that ``text`` names.

    Args:
        text: an address, whose fingerprint may be cut short; a pair ``DATASET|RECIPE``, which is the last artifact made
            of it; a dataset key, which is the curated version, or the upload where it is not curated; a recipe key,
            which is its base; or a line (``tenant.dataset.recipe``), which is its last accepted adapter.

    Raises UserError where it names nothing, or both a dataset and a recipe; MissingInput where nothing is made yet.
    """
    artifacts = Artifacts(store_or_default(store))
    if "|" in text:
        return _last_of_pair(artifacts, *own_pair(artifacts.store, text).split("|", 1)).address
    if "/" in text:
        return find_address(text, store=artifacts.store)
    if not _VERSION.search(text):
        return find_adapter(text, store=artifacts.store).address
    own = own_recipe(artifacts.store, text)
    text = own if RECIPE.exists(artifacts.store, own) else own_dataset(text)
    dataset, recipe = DATASET.exists(artifacts.store, text), RECIPE.exists(artifacts.store, text)
    if dataset and recipe:
        raise UserError(
            "this is the key of a dataset and of a recipe", where=text, remedy="Give an address, or DATASET|RECIPE."
        )
    if recipe or text.count(".") == 1:
        return identity.base_model(artifacts, text).address
    try:
        return identity.dataset(artifacts, text).address
    except (MissingInput, HeldForReview, Deleted):
        if not dataset:
            raise
        return Address.parse(DATASET.get(artifacts.store, text)["address"])


def names_of(addresses: Iterable[str], *, tenant: str = "", store: Store | None = None) -> dict[str, str]:
    """By address, what people know an artifact by: an upload's dataset keys and file names, a base's source, and of all
    else the key that it was first made for; "" where nothing is known of it. With ``tenant``: of what all tenants
    share, no key of another one."""
    artifacts = Artifacts(store_or_default(store))

    @cache
    def keys_of(tenant: str) -> list[tuple[str, str]]:
        keys = [key for key in DATASET.keys(artifacts.store) if key.startswith(f"{tenant}.")]
        return [(key, DATASET.get(artifacts.store, key)["address"]) for key in keys]

    def name_of(address: str) -> str:
        try:
            return ", ".join(filter(None, _names(artifacts, Address.parse(address), keys_of, tenant)))
        except CorruptArtifact:
            return ""

    return {address: name_of(address) for address in set(addresses)}


def _names(
    artifacts: Artifacts, address: Address, keys_of: Callable[[str], list[tuple[str, str]]], tenant: str
) -> Iterator[str]:
    if address.asset == "raw_dataset":
        yield from (key for key, upload in keys_of(address.tenant) if upload == str(address))
    if address.asset in _UPLOADS:
        found = artifacts.find(address)
        stored = sorted(found.manifest.files) if found else []
        # A dataset's policy lies beside its upload.
        files = [name.removeprefix("upload/") for name in stored if name.startswith("upload/")] or stored
        yield from files[:_SHOWN_FILES]
        if len(files) > _SHOWN_FILES:
            yield f"{len(files) - _SHOWN_FILES} more files"
        return
    if address.asset == "base_model" and (found := artifacts.find(address)):
        yield str(found.facts.get("source", ""))
    if spec := Attempt(artifacts.store, address, 1).spec():
        label = spec.label
        if not tenant or label.startswith(f"{tenant}.") or label.count(".") == 1:
            yield label


def _last_of_pair(artifacts: Artifacts, dataset: str, recipe: str) -> Artifact:
    for find in (identity.exported, identity.eval_report, identity.checkpoint):
        try:
            return find(artifacts, dataset, recipe)
        except (MissingInput, HeldForReview):
            continue
    return identity.token_pack(artifacts, dataset, recipe)
