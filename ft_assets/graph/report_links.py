"""Where a report page is, as metadata of an asset."""

import dagster as dg

from ft_resources.artifacts import Artifact

REPORT_PAGE = "report/report.html"


def report_link(artifact: Artifact, page: str = REPORT_PAGE) -> dg.MetadataValue:
    """The location of a page of an artifact, as a browser takes it where the store is this machine's disk."""
    return dg.MetadataValue.path(f"{artifact.store.url}/{artifact.location(page)}")
