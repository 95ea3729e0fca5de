"""Links to report pages, as a browser takes them from Dagster's page."""

import dagster as dg

from ft_assets.settings.environment import report_pages_url
from ft_resources.artifacts import Artifact

REPORT_PAGE = "report/report.html"


def report_link(artifact: Artifact, page: str = REPORT_PAGE) -> dg.MetadataValue:
    """A link to a page of ``artifact``. It carries no signature, which would be over long before Dagster forgets it."""
    return dg.MetadataValue.url(f"{report_pages_url()}/{artifact.address}/{page}")
