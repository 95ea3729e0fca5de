"""Links to report pages, as a browser takes them from Dagster's page."""

import os

import dagster as dg

from ft_assets.settings.environment import reports_url
from ft_resources.artifacts import Artifact

REPORT_PAGE = "report/report.html"


def report_link(artifact: Artifact, page: str = REPORT_PAGE) -> dg.MetadataValue:
    """A link to a page of ``artifact``: to the server of ``ft ui``, or into a store that is elsewhere."""
    location = artifact.location(page)
    if artifact.store.root is None and "FT_REPORTS_URL" not in os.environ:
        return dg.MetadataValue.url(f"{artifact.store.url}/{location}")
    return dg.MetadataValue.url(f"{reports_url()}/{artifact.address}/{page}")
