"""The report pages of artifacts, for a browser."""

from dataclasses import dataclass

from ft_assets.api.defaults import store_or_default
from ft_assets.records.report_pages import FOLDER, media_type_of
from ft_assets.records.tombstones import require_tenant_alive
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store


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
    file = f"{FOLDER}/{name}"
    artifact, media_type = find_page(address, file, store=store_or_default(store))
    local = artifact.store.local_path(artifact.location(file))
    if local is not None and artifact.store.root is not None:
        inside = local.relative_to(artifact.store.root)
        if local.resolve() != artifact.store.root.resolve() / inside:
            raise CorruptArtifact("it is a link to another place", where=str(inside), remedy="Remove the link.")
    return ReportFile(data=artifact.read(file), media_type=media_type)


def find_page(address: str, file: str, *, store: Store) -> tuple[Artifact, str]:
    """The artifact at ``address``, and the media type of its page or picture ``file``, whose bytes are not read. Raises
    UserError for any other file, and for what was deleted."""
    found = Address.parse(address)
    require_tenant_alive(store, found.tenant)
    artifact = Artifacts(store).get(found)
    media_type = media_type_of(artifact, file)
    if not media_type:
        raise UserError("it is not a page of a report", where=f"{address}/{file}", remedy="Open report/report.html.")
    return artifact, media_type
