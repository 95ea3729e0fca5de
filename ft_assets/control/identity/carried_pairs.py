"""A pair that is not trained: another one's weights, carried to its base."""

from ft_assets.base_bumps.carried import SOURCE
from ft_assets.base_bumps.carries import Carry, find_carry
from ft_assets.base_bumps.fit import misfit
from ft_assets.erasure.tombstones import Subject, require_not_deleted
from ft_assets.identity.bases import base_model
from ft_assets.identity.lookup import registered_recipe
from ft_assets.identity.versions import CODE_VERSIONS
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, Deleted
from ft_resources.work import WorkRequest


def carried_request(artifacts: Artifacts, carry: Carry) -> WorkRequest:
    """The checkpoint of a carried pair: no work for a worker (``make_carried``)."""
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
            f"it has changed since {carry.dataset}|{carry.recipe} was to be carried from it",
            where=str(source.address),
            remedy="Restore its manifest from the bucket's versions or a backup.",
        )
    return source


def carry_problem(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> str:
    """Why a pair cannot be carried, though that was asked for; "" where it can. Raises MissingInput for its base."""
    carry = find_carry(artifacts.store, dataset_key, recipe_key)
    if carry is None:
        return "it is not carried any more: a training of the pair was asked for"
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
