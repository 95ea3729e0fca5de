"""A pair's token pack."""

from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.lookup import require_made
from ft_assets.control.identity.pairs import fitting_dataset, pair_recipe
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.code_versions import CODE_VERSIONS, PACK_TOOLS
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.work import WorkRequest


def token_pack_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    recipe = pair_recipe(artifacts, dataset_key, recipe_key)
    base = base_model(artifacts, recipe_key)
    tokenizer = {key: base.facts[key] for key in ("tokenizer_digest", "template_digest")}
    return WorkRequest(
        asset="token_pack",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["token_pack"],
        inputs={
            "dataset": fitting_dataset(artifacts, dataset_key, recipe).ref,
            # Bases with one tokenizer and template share packs, so only these two count.
            "base": InputRef(address=str(base.address), digest=digest(tokenizer)),
        },
        params={**recipe.token_settings(), "form": METHODS[recipe.method].form.name, "tools": PACK_TOOLS},
        label=f"{dataset_key}|{recipe_key}",
    )


def token_pack(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return require_made(artifacts, token_pack_request(artifacts, dataset_key, recipe_key))
