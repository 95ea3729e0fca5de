"""Signed links: whoever has the link can open a report page, a pack's samples or a plot for 15 minutes."""

from dataclasses import dataclass
from urllib.parse import urlencode

from ft_assets.api.report_pages import ReportFile, find_page, report_file
from ft_assets.control.access.api_keys import Access
from ft_assets.control.access.links import Signature as LinkSignature
from ft_resources.errors import NotFound, StoreUnavailable, UserError
from ft_resources.store import Store

__all__ = ["LINKS", "LinkSignature", "SignedLink", "open_link", "sign_link"]

LINKS = "/links"
"""The server's path of links."""


@dataclass(frozen=True, kw_only=True)
class SignedLink:
    """``path`` is of the server, with its query; ``expires_at`` in seconds since the epoch."""

    path: str
    expires_at: int


def sign_link(tenant: str, artifact: str, file: str, *, store: Store, access: Access) -> SignedLink:
    """A link to ``file`` (``report/report.html``) of the artifact at an address of ``tenant``; "" is the platform,
    which may read all. Raises NotFound if it is not a page or picture of that artifact."""
    missing = NotFound("there is no such page", where="page", remedy="Open it from its dataset or job.")
    if tenant and artifact.partition("/")[0] != tenant:
        raise missing
    try:
        found, _ = find_page(artifact, file, store=store)
    except StoreUnavailable:
        raise
    except UserError:
        raise missing from None
    path = f"{found.address}/{file}"
    made = access.sign(path)
    return SignedLink(path=f"{LINKS}/{path}?{urlencode(vars(made))}", expires_at=made.expires)


def open_link(path: str, given: LinkSignature, *, store: Store, access: Access) -> ReportFile:
    """What a link to ``path`` (``ADDRESS/report/report.html``) opens. Raises NotPermitted if it is no longer valid, and
    UserError if its page was removed."""
    access.check_link(path, given)
    artifact, _, name = path.rpartition("/report/")
    return report_file(artifact, name, store=store)
