"""The first steps on the data's side: uploads and their curated versions."""

from ft_assets.control.identity.approvals import require_approved
from ft_assets.control.identity.lookup import require_made
from ft_assets.records.names import DATASET, HELD_OUT
from ft_assets.records.tombstones import require_dataset_alive
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.dataset.policy import policy_of
from ft_assets.settings.keys import DatasetKey
from ft_assets.workers.suites.registered import get_classifier, get_encoder, get_name_model, get_suite
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.errors import MissingInput, UserError
from ft_resources.work import WorkRequest


def raw_dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The uploaded bytes of a dataset version. Raises UserError for a key that was never added, and Deleted."""
    key = DatasetKey.parse(dataset_key)
    require_dataset_alive(artifacts.store, key)
    pointer = DATASET.find(artifacts.store, str(key))
    if pointer is None:
        raise UserError(
            f"there is no dataset version {str(key)!r}",
            where=f"dataset key {dataset_key!r}",
            remedy=f"Add it with: ft dataset add FILE --name {key.tenant}.{key.name}",
        )
    return artifacts.get(Address.parse(pointer["address"]))


def dataset_request(artifacts: Artifacts, dataset_key: str) -> WorkRequest:
    """The inputs of a curated version. Raises MissingInput for one whose earlier versions' holdouts are not settled
    (see ``held_out``), or that mixes in one that is not curated, and HeldForReview for the latter."""
    raw = raw_dataset(artifacts, dataset_key)
    settled = raw.manifest.identity["params"]["policy"]
    policy = policy_of(settled)
    suites = policy.contamination.suites
    inputs = {f"suite:{key}": get_suite(artifacts.store, key) for key in (() if suites == "all" else suites)}
    if policy.contamination.paraphrases:
        inputs["encoder"] = get_encoder(artifacts.store, policy.contamination.paraphrases.encoder)
    if policy.toxicity:
        inputs["classifier"] = get_classifier(artifacts.store, policy.toxicity.classifier)
    if policy.personal_data.names:
        inputs["name_model"] = get_name_model(artifacts.store, policy.personal_data.names.model)
    inputs.update(_held_out(artifacts, dataset_key))
    inputs.update({f"mix:{each.dataset}": approved_dataset(artifacts, each.dataset).ref for each in policy.mix})
    return WorkRequest(
        asset="dataset",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["dataset"],
        inputs={"raw": raw.ref, **inputs},
        params={"policy": settled},
        label=dataset_key,
    )


def _held_out(artifacts: Artifacts, dataset_key: str) -> dict[str, InputRef]:
    """What earlier versions held out; nothing for the first version, and for versions older than this record."""
    if not (DATASET.find(artifacts.store, dataset_key) or {}).get("follows"):
        return {}
    settled = HELD_OUT.find(artifacts.store, dataset_key)
    if settled is None:
        raise MissingInput("dataset", dataset_key)
    return {"held_out": InputRef(**settled)} if settled["address"] else {}


def dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The curated version, for display. Whatever builds on it uses ``approved_dataset``."""
    return require_made(artifacts, dataset_request(artifacts, dataset_key))


def approved_dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The curated version, for use. Raises HeldForReview if it still needs a person's approval."""
    curated = dataset(artifacts, dataset_key)
    require_approved(artifacts, curated, dataset_key)
    return curated
