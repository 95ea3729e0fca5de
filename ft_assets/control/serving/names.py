"""Model names that a tenant may use, and the adapter that each means.

``tenant.dataset.recipe``            the line's adapter in production
``tenant.dataset.recipe@staging``    the one in staging
``tenant.dataset.recipe@DIGEST``     one that stands or stood in a stage, by 16 hex characters of its content digest
"""

import logging
from contextlib import suppress

from ft_assets.control.lines.lines import POINTERS, LineState, PromotionRecord, check_line, list_lines, read_line
from ft_assets.records.tombstones import require_alive
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, Deleted, NotFound, StoreUnavailable, UserError
from ft_resources.serving.fleet import ServedModel

_LOG = logging.getLogger(__name__)
_STAGING = "staging"
_CONFIG = "adapter_config.json"


def no_model(name: str) -> NotFound:
    """The error for a name that means nothing: the same for what is not there, was deleted, or is another tenant's."""
    return NotFound(
        f"there is no model {name!r}",
        where="model",
        remedy="List the models; a line is included from its first promotion to production.",
    )


def find_model(artifacts: Artifacts, name: str, *, tenant: str) -> Artifact:
    """The adapter that ``name`` means for ``tenant``. Raises NotFound."""
    line, marked, version = name.partition("@")
    if line.partition(".")[0] != tenant or not _is_line(line):
        raise no_model(name)
    state = read_line(artifacts.store, line)
    record = _chosen(state, version) if version or not marked else None
    if record is None:
        raise no_model(name) if version or marked or not state.records else _not_in_production(state)
    return _promoted(artifacts, record, name)


def alive(artifacts: Artifacts, address: str, name: str) -> Artifact:
    """The artifact at ``address``, which ``name`` means. Raises NotFound if it is gone or deleted."""
    artifact = artifacts.find(Address.parse(address))
    if artifact is None:
        raise no_model(name)
    try:
        require_alive(artifacts.store, artifact)
    except Deleted:
        raise no_model(name) from None
    return artifact


def served(artifact: Artifact) -> ServedModel:
    """An adapter's name on servers. Raises UserError for a result that is a whole model."""
    if not is_adapter(artifact):
        raise UserError(
            "this is a complete model, and servers support adapters only",
            where="model",
            remedy="Download it, and serve it on its own server.",
        )
    base = artifact.manifest.inputs["base"]
    return ServedModel(
        line=artifact.facts["line"],
        address=str(artifact.address),
        digest=artifact.digest,
        base=base.digest,
        base_address=base.address,
    )


def list_models(artifacts: Artifacts, tenant: str) -> dict[str, Artifact]:
    """The names of a tenant's lines that mean an adapter now, by line, and those adapters. A line that is damaged has
    none, and hides no other. Raises StoreUnavailable."""
    found: dict[str, Artifact] = {}
    for line in list_lines(artifacts.store, tenant):
        try:
            found |= _models_of(artifacts, read_line(artifacts.store, line))
        except StoreUnavailable:
            raise
        except UserError as error:
            _LOG.warning("the models of %s are not listed: %s", line, error)
    return found


def is_adapter(artifact: Artifact) -> bool:
    """Whether servers can load it beside others of its base."""
    return _CONFIG in artifact.manifest.files


def _models_of(artifacts: Artifacts, state: LineState) -> dict[str, Artifact]:
    found = {}
    for name, record in ((state.line, state.at("production")), (f"{state.line}@{_STAGING}", state.at("staging"))):
        # A deleted adapter, and a whole model, cannot be prompted.
        with suppress(NotFound):
            if record and is_adapter(artifact := _promoted(artifacts, record, name)):
                found[name] = artifact
    return found


def _promoted(artifacts: Artifacts, record: PromotionRecord, name: str) -> Artifact:
    artifact = alive(artifacts, record.adapter.address, name)
    if artifact.digest != record.adapter.digest:
        raise CorruptArtifact("the adapter is not the one that was promoted", where=str(artifact.address))
    return artifact


def _chosen(state: LineState, version: str) -> PromotionRecord | None:
    if not version:
        return state.at("production")
    if version == _STAGING:
        return state.at("staging")
    # A rollback from what stands there now must not take away what a client asked for by its digest.
    stood = (record for record in state.records if record.stage in POINTERS)
    return next(
        (
            record
            for record in stood
            if record.adapter.digest[:16] == version and record.adapter.address not in state.archived
        ),
        None,
    )


def _not_in_production(state: LineState) -> NotFound:
    promote = f"Promote one: ft promote {state.line} --to production"
    staging = f"; or request {state.line}@{_STAGING}." if state.at("staging") else "."
    return NotFound(f"no adapter of {state.line} is in production", where="model", remedy=promote + staging)


def _is_line(text: str) -> bool:
    try:
        check_line(text)
    except UserError:
        return False
    return True
