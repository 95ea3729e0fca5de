"""A carried pair: it is not trained, but uses another pair's weights on its own base."""

from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.lookup import registered_recipe
from ft_assets.records.carries import Carry, find_carry
from ft_assets.records.tombstones import Subject, require_not_deleted
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.workers.adapters.carried_checkpoint import SOURCE
from ft_assets.workers.adapters.fit import misfit
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, Deleted
from ft_resources.work import WorkRequest


def carried_request(artifacts: Artifacts, carry: Carry) -> WorkRequest:
    """The checkpoint of a carried pair; ``make_carried`` builds it without a worker."""
    source = _carry_source(artifacts, carry)
    return WorkRequest(
        asset="checkpoint",
        tenant=source.address.tenant,
        code_version=CODE_VERSIONS["checkpoint"],
        inputs={
            SOURCE: source.ref,
            "pack": source.manifest.inputs["pack"],
            "base": base_model(artifacts, carry.recipe).ref,
        },
        params={"mode": "carry"},
        label=f"{carry.dataset}|{carry.recipe}",
    )


def _carry_source(artifacts: Artifacts, carry: Carry) -> Artifact:
    source = artifacts.get(Address.parse(carry.checkpoint.address))
    if source.digest != carry.checkpoint.digest:
        raise CorruptArtifact(
            f"it has changed since the carry of {carry.dataset}|{carry.recipe} was recorded",
            where=str(source.address),
            remedy="Restore its manifest from the bucket's versions or a backup.",
        )
    return source


def carry_problem(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> str:
    """Why a pair cannot be carried; "" if it can. Raises MissingInput for its base."""
    carry = find_carry(artifacts.store, dataset_key, recipe_key)
    if carry is None:
        return "it is no longer carried: a training of the pair was requested"
    try:
        require_not_deleted(artifacts.store, Subject.adapter(Address.parse(carry.adapter.address)))
    except Deleted as error:
        return error.what
    source = _carry_source(artifacts, carry)
    return misfit(
        source,
        artifacts.find(Address.parse(source.manifest.inputs["base"].address)),
        base_model(artifacts, recipe_key),
        template_given=registered_recipe(artifacts, recipe_key).recipe.chat_template is not None,
    )
