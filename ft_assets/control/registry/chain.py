"""The lock of a base that is an accepted adapter of ours: SFT then DPO, CPT then SFT."""

from ft_assets.control import identity
from ft_assets.control.identity.accepted import PREFIX, accepted_adapter
from ft_assets.settings.keys import SHARED, DatasetKey, RecipeKey
from ft_assets.settings.recipe.base_ref import AcceptedAdapter, AdapterOfPair
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.errors import BadRecipe, MissingInput

_FIELD = "base"


def lock_adapter(artifacts: Artifacts, reference: AcceptedAdapter, key: RecipeKey, where: str) -> BaseLock:
    """The lock of the adapter that the recipe ``key`` names. Raises BadRecipe if the recipe may not use it as its base.

    Manifests and all files except weights are verified here; the worker that reads weights verifies them.
    """
    require_own(Address.parse(reference.address).tenant, key, _FIELD, where)
    adapter = accepted_adapter(artifacts, reference.address, _FIELD, where)
    for name in adapter.manifest.files:
        if not name.endswith(".safetensors"):
            adapter.read(name)
    source = f"{PREFIX}{reference.address}"
    return BaseLock(
        kind="artifact",
        source=source,
        revision=adapter.digest,
        digest=adapter.digest,
        files=adapter.manifest.files,
        parent=None if is_whole_model(adapter) else _parent(artifacts, adapter, where),
    )


def is_whole_model(adapter: Artifact) -> bool:
    """Whether an accepted adapter needs no base, because it was trained in full."""
    return "config.json" in adapter.manifest.files


def name_adapter(
    artifacts: Artifacts, reference: AdapterOfPair, key: RecipeKey, locked: BaseLock | None, where: str
) -> str:
    """The base of the recipe ``key`` by address, for a recipe that names a pair.

    ``locked`` is the lock of the recipe if it is registered already: its base stays the pair's adapter at that time,
    whatever today's code would make from the pair. Raises BadRecipe if the pair has no adapter.
    """
    require_own(DatasetKey.parse(reference.dataset).tenant, key, _FIELD, where)
    known = locked.source.removeprefix(PREFIX) if locked is not None and locked.kind == "artifact" else ""
    return f"{PREFIX}{adapter_of_pair(artifacts, reference, known, _FIELD, where)}"


def adapter_of_pair(artifacts: Artifacts, reference: AdapterOfPair, locked: str, field: str, where: str) -> str:
    """The address of the adapter of the pair that a recipe names in ``field``: ``locked``, if that is one of the
    pair's. Raises BadRecipe if the pair has none."""
    if locked:
        known = artifacts.find(Address.parse(locked))
        params = known.manifest.identity["params"] if known else {}
        if (params.get("dataset"), params.get("recipe")) == (reference.dataset, reference.recipe):
            return locked
    try:
        return str(identity.adapter(artifacts, reference.dataset, reference.recipe).address)
    except MissingInput as error:
        raise BadRecipe(
            f"{field}: the pair {reference.dataset}|{reference.recipe} has no accepted adapter",
            where=where,
            remedy=f"Create it first: ft run {reference.dataset} {reference.recipe}. A rejected candidate cannot be "
            "used.",
        ) from error


def require_own(tenant: str, key: RecipeKey, field: str, where: str) -> None:
    """Refuse another tenant's adapter before anything is read, so that nobody learns what that tenant has."""
    if tenant in (key.owner, SHARED):
        return
    if key.owner == SHARED:
        raise BadRecipe(
            f"{field}: {key} is shared by all tenants, and this adapter belongs to {tenant!r}",
            where=where,
            remedy=f"Use a recipe key of that tenant: {tenant}.{key}.",
        )
    raise BadRecipe(
        f"{field}: {key} belongs to tenant {key.owner!r}, and this adapter to {tenant!r}",
        where=where,
        remedy="Name an adapter of the recipe's own tenant.",
    )


def _parent(artifacts: Artifacts, adapter: Artifact, where: str) -> InputRef:
    """The adapter's own base, if the store still has it."""
    ref = adapter.manifest.inputs["base"]
    found = artifacts.find(Address.parse(ref.address))
    if found is None or found.digest != ref.digest:
        raise BadRecipe(
            f"base: the base model of this adapter, {ref.address}, is no longer in the store",
            where=where,
            remedy="Materialize base_model for the adapter's recipe.",
        )
    return ref
