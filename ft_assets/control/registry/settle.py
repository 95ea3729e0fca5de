"""Resolve a dataset policy when a version is added, and check its references against the store."""

from ft_assets.records.names import DATASET
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.dataset.recogniser import NameSettings
from ft_assets.settings.keys import SHARED, DatasetKey
from ft_assets.workers.suites.registered import get_classifier, get_encoder, get_name_model, get_suite, list_suites
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store


def settle(store: Store, policy: DatasetPolicy, tenant: str) -> DatasetPolicy:
    """``policy`` with ``all`` replaced by today's suites.

    Raises:
        BadRecipe: for a mapping of fields that no form has.
        UserError: for a suite, model or other dataset that does not exist or belongs to another tenant.
    """
    FormSettings.of(policy)
    _require_region(policy.personal_data.phone_region)
    suites = policy.contamination.suites
    named = tuple(list_suites(store)) if suites == "all" else tuple(sorted(set(suites)))
    for key in named:
        get_suite(store, key)
    if policy.contamination.paraphrases:
        get_encoder(store, policy.contamination.paraphrases.encoder)
    if policy.toxicity:
        get_classifier(store, policy.toxicity.classifier)
    if policy.personal_data.names:
        _require_entities(store, policy.personal_data.names)
    for mix in policy.mix:
        _require_mixable(store, mix.dataset, tenant)
    contamination = policy.contamination.model_copy(update={"suites": named})
    return policy.model_copy(update={"contamination": contamination})


def _require_region(region: str) -> None:
    from phonenumbers import SUPPORTED_REGIONS

    if region != "auto" and region not in SUPPORTED_REGIONS:
        raise UserError(
            f"{region!r} is not a country with known phone numbers",
            where="dataset.yaml: personal_data: phone_region",
            remedy="Write its two letters as in ISO 3166, such as DE or US, or auto.",
        )


def _require_entities(store: Store, names: NameSettings) -> None:
    known = Artifacts(store).get(Address.parse(get_name_model(store, names.model).address)).facts["entities"]
    for entity in names.entities:
        if entity not in known:
            raise UserError(
                f"the name model {names.model} does not find {entity}",
                where="dataset.yaml: personal_data: names: entities",
                remedy=f"Write entities: [{', '.join(known)}], or name another model.",
            )


def _require_mixable(store: Store, key: str, tenant: str) -> None:
    owner = DatasetKey.parse(key).tenant
    where = f"dataset.yaml: mix: {key}"
    # The same message for a foreign and for a missing dataset, so that it reveals nothing about other tenants.
    if owner not in (tenant, SHARED) or not DATASET.exists(store, str(key)):
        raise UserError(
            f"there is no dataset version {key!r} that {tenant} may mix in",
            where=where,
            remedy=f"Name a version of {tenant} or of {SHARED}, as `ft dataset list` shows them.",
        )
