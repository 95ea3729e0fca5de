"""Files of an artifact for browsers: pages and pictures below ``report/``."""

from pathlib import PurePosixPath

from ft_resources.artifacts import Artifact

MEDIA_TYPES = {".html": "text/html; charset=utf-8", ".png": "image/png"}
FOLDER = "report"


def media_type_of(artifact: Artifact, file: str) -> str:
    """The media type of ``file`` (``report/report.html``), "" unless it is a page or picture of the artifact."""
    path = PurePosixPath(file)
    known = file in artifact.manifest.files and path.parent == PurePosixPath(FOLDER)
    return MEDIA_TYPES.get(path.suffix, "") if known else ""


def pages_of(artifact: Artifact) -> tuple[str, ...]:
    """The artifact's pages and pictures by name, such as ``report/report.html``."""
    return tuple(file for file in sorted(artifact.manifest.files) if media_type_of(artifact, file))
