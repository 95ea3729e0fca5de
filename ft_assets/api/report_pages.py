"""The report pages of artifacts, for a browser."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from ft_assets.api.defaults import store_or_default
from ft_assets.records.tombstones import require_tenant_alive
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store

_TYPES = {".html": "text/html; charset=utf-8", ".png": "image/png"}


@dataclass(frozen=True, kw_only=True)
class ReportFile:
    """One verified file of a report, and its media type."""

    data: bytes
    media_type: str


def report_file(address: str, name: str, *, store: Store | None = None) -> ReportFile:
    """The page or picture ``name`` (``report.html``) of the report of the artifact at ``address``.

    Only names that the manifest lists, so no path leads out of the artifact. Raises UserError for anything else, for a
    file behind a link of the file system, and for what was deleted.
    """
    store = store_or_default(store)
    found = Address.parse(address)
    require_tenant_alive(store, found.tenant)
    artifact = Artifacts(store).get(found)
    file, kind = f"report/{name}", PurePosixPath(name).suffix
    if kind not in _TYPES or file not in artifact.manifest.files:
        raise UserError("it is not a page of a report", where=f"{address}/{file}", remedy="Open report/report.html.")
    local = artifact.store.local_path(artifact.location(file))
    if local is not None and store.root is not None:
        inside = local.relative_to(store.root)
        if local.resolve() != store.root.resolve() / inside:
            raise CorruptArtifact("it is a link to another place", where=str(inside), remedy="Remove the link.")
    return ReportFile(data=artifact.read(file), media_type=_TYPES[kind])
