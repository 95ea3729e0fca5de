"""A dataset version at a glance: from its upload, its curation and its token packs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ft_assets.api.datasets import state_of
from ft_assets.api.defaults import store_or_default
from ft_assets.api.model_cards import base_name
from ft_assets.control import identity
from ft_assets.records.names import DATASET
from ft_assets.records.part_uploads import UploadedDataset
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import NotFound, StoreUnavailable, UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store

_REPORT = "report/report.json"
# Manifests never change.
_FOUND: Remembered[Artifact] = Remembered(20_000)
_COUNTS: Remembered[Mapping[str, int]] = Remembered(20_000)


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """A version.

    Args:
        state: as ``list_datasets`` tells it, and ``why``.
        created_at: seconds since the epoch.
        uri: the folder of the uploaded bytes.
        form: what its rows teach, such as ``chat``; "" for what is neither curated nor was uploaded over HTTP.
        rows: as they were uploaded.
        kept: by split, once it is curated.
        dedup_removed: rows left out as copies of others; None before it is curated.
        contamination_flagged: rows with text of public tests, whatever was done with them; None before.
        tokens: of the packs that trainings read, by base; empty until one is made. The newest of a base counts.
        curated: address of the curated version; "" before.
        upload: id of the newest upload that became it, if that was one with an id.
    """

    key: DatasetKey
    state: str
    why: str
    created_at: float
    uri: str
    bytes: int
    rows: int
    form: str
    kept: Mapping[str, int] | None
    dedup_removed: int | None
    contamination_flagged: int | None
    tokens: Mapping[str, int]
    curated: str
    upload: str


def dataset_card(key: str, *, store: Store | None = None) -> DatasetCard:
    """A card of the version ``key``. Raises NotFound where it is not there, or deleted."""
    store = store_or_default(store)
    artifacts, parsed = Artifacts(store), DatasetKey.parse(key)
    pointer = DATASET.find(store, str(parsed))
    state, why = state_of(artifacts, parsed) if pointer else ("deleted", "")
    if pointer is None or state == "deleted":
        raise NotFound(f"there is no dataset {key!r}", where="dataset", remedy="List datasets to see them.")
    raw, curated = _find(artifacts, Address.parse(pointer["address"])), _curated(artifacts, str(parsed))
    sent = UploadedDataset.of(store, parsed)
    facts, counts = curated.facts if curated else {}, _counts(curated) if curated else {}
    return DatasetCard(
        key=parsed,
        state=state,
        why=why,
        created_at=datetime.fromisoformat(pointer["created_at"]).timestamp(),
        uri=store.url_of(pointer["address"]),
        bytes=raw.facts["bytes"] if raw else 0,
        rows=raw.facts["rows"] if raw else 0,
        form=facts.get("form") or (sent.form if sent else ""),
        kept=facts.get("rows"),
        dedup_removed=counts.get("duplicates"),
        contamination_flagged=counts.get("contamination"),
        tokens=_tokens(artifacts, curated) if curated else {},
        curated=str(curated.address) if curated else "",
        upload=sent.upload if sent else "",
    )


def dataset_keys(tenant: str, *, store: Store | None = None) -> list[str]:
    """Keys of the tenant's versions in order, those of deleted ones among them."""
    keys = (DatasetKey.parse(text) for text in DATASET.keys(store_or_default(store)) if text.startswith(f"{tenant}."))
    return [str(key) for key in sorted(keys, key=lambda key: (key.name, key.version))]


def _find(artifacts: Artifacts, address: Address) -> Artifact | None:
    return _FOUND.get(artifacts.store, str(address), lambda: artifacts.find(address))


def _curated(artifacts: Artifacts, key: str) -> Artifact | None:
    try:
        return _find(artifacts, identity.dataset_request(artifacts, key).address)
    except StoreUnavailable:
        raise
    except UserError:
        # A version before it, or one that it mixes in, is not curated; or it cannot be: its state says so.
        return None


def _counts(curated: Artifact) -> Mapping[str, int]:
    """Rows that the steps of curation found, as ``report.json`` counts them."""

    def read() -> Mapping[str, int]:
        if _REPORT not in curated.manifest.files:
            return {}
        steps: list[dict[str, Any]] = curated.read_json(_REPORT)["steps"]
        found = {step["step"]: step["findings"] for step in steps}
        copies = [each for each in found.get("duplicates", []) if each["action"] == "removed"]
        tests = [*found.get("contamination", []), *found.get("paraphrases", [])]
        return {
            "duplicates": sum(each["count"] for each in copies),
            "contamination": sum(each["count"] for each in tests),
        }

    return _COUNTS.get(curated.store, str(curated.address), read) or {}


def _tokens(artifacts: Artifacts, curated: Artifact) -> dict[str, int]:
    tenant, packs = curated.address.tenant, list[Artifact]()
    for fingerprint in artifacts.store.folders(f"{tenant}/token_pack"):
        pack = _find(artifacts, Address(tenant=tenant, asset="token_pack", fingerprint=fingerprint))
        if pack is not None and pack.manifest.inputs["dataset"].address == str(curated.address):
            packs.append(pack)
    return {
        _base_of(artifacts, pack): pack.facts["tokens"]
        for pack in sorted(packs, key=lambda each: each.manifest.created_at)
    }


def _base_of(artifacts: Artifacts, pack: Artifact) -> str:
    address = pack.manifest.inputs["base"].address
    base = _find(artifacts, Address.parse(address))
    return base_name(base) if base else address
