"""The lock of a base that is an accepted adapter of ours: SFT then DPO, CPT then SFT."""

from ft_assets.base_models.lock import BaseLock
from ft_assets.keys import SHARED, DatasetKey, RecipeKey
from ft_assets.recipes.base_ref import AcceptedAdapter, AdapterOfPair
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.errors import BadRecipe, MissingInput

_PREFIX = "artifact:"


def lock_adapter(artifacts: Artifacts, reference: AcceptedAdapter, key: RecipeKey, where: str) -> BaseLock:
    """The lock of the adapter that the recipe ``key`` names. Raises BadRecipe where it may not stand on it.

    Manifests and all files but weights are verified here, weights by the worker that reads them.
    """
    address = Address.parse(reference.address)
    _require_own(address.tenant, key, where)
    adapter = artifacts.find(address)
    if adapter is None:
        raise BadRecipe(
            f"base: this store has no accepted adapter {reference.address}",
            where=where,
            remedy="Name one of those that `ft adapter list` shows. A candidate that was rejected is no base.",
        )
    for name in adapter.manifest.files:
        if not name.endswith(".safetensors"):
            adapter.read(name)
    source = f"{_PREFIX}{reference.address}"
    return BaseLock(
        kind="artifact",
        source=source,
        revision=adapter.digest,
        digest=adapter.digest,
        files=adapter.manifest.files,
        parent=None if is_whole_model(adapter) else _parent(artifacts, adapter, where),
    )


def is_whole_model(adapter: Artifact) -> bool:
    """Whether an accepted adapter needs no base: it was trained in full."""
    return "config.json" in adapter.manifest.files


def name_adapter(
    artifacts: Artifacts, reference: AdapterOfPair, key: RecipeKey, locked: BaseLock | None, where: str
) -> str:
    """The base of the recipe ``key`` by address, for one that names a pair.

    ``locked`` is the lock under which the recipe is registered already: it stands on the pair's adapter of that day,
    whatever today's code would make of the pair. Raises BadRecipe where the pair has no adapter.
    """
    pair = f"{reference.dataset}|{reference.recipe}"
    _require_own(DatasetKey.parse(reference.dataset).tenant, key, where)
    if locked is not None and locked.kind == "artifact":
        known = artifacts.find(Address.parse(locked.source.removeprefix(_PREFIX)))
        params = known.manifest.identity["params"] if known else {}
        if (params.get("dataset"), params.get("recipe")) == (reference.dataset, reference.recipe):
            return locked.source
    # Imported here: identity asks this package what recipes say.
    from ft_assets import identity

    try:
        return f"{_PREFIX}{identity.adapter(artifacts, reference.dataset, reference.recipe).address}"
    except MissingInput as error:
        raise BadRecipe(
            f"base: the pair {pair} has no accepted adapter",
            where=where,
            remedy=f"Make it first: ft run {reference.dataset} {reference.recipe}. A rejected candidate is no base.",
        ) from error


def _require_own(tenant: str, key: RecipeKey, where: str) -> None:
    """Before anything is looked at, so that nobody learns what another tenant has."""
    if tenant in (key.owner, SHARED):
        return
    if key.owner == SHARED:
        raise BadRecipe(
            f"base: {key} is shared by all tenants, and this adapter belongs to {tenant!r}",
            where=where,
            remedy=f"Make it a recipe of that tenant: key {tenant}.{key}.",
        )
    raise BadRecipe(
        f"base: {key} belongs to tenant {key.owner!r}, and this adapter to {tenant!r}",
        where=where,
        remedy="Name an adapter of the recipe's own tenant.",
    )


def _parent(artifacts: Artifacts, adapter: Artifact, where: str) -> InputRef:
    """The base that the adapter stands on, if the store still has what it was trained on."""
    ref = adapter.manifest.inputs["base"]
    found = artifacts.find(Address.parse(ref.address))
    if found is None or found.digest != ref.digest:
        raise BadRecipe(
            f"base: the model that this adapter stands on, {ref.address}, is not in the store any more",
            where=where,
            remedy="Materialize base_model for the recipe that the adapter was made with.",
        )
    return ref
