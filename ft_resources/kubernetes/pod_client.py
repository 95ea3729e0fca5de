"""The connection and login of a pod's own service account.

Importing the official client loads its models, a third of all that a waiting run would hold. It is left to those who
log in by a kubeconfig file, which may name any way to do so.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import urllib3

_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECTIONS = 10
"""Kept for further requests; more are opened where more are needed at once."""


class PodClient:
    """What ``Api`` uses of ``kubernetes.client.ApiClient``."""

    def __init__(self, host: str, files: Path) -> None:
        self.default_headers = {"User-Agent": "ft-platform"}
        self.configuration = SimpleNamespace(host=host)
        self.rest_client = SimpleNamespace(pool_manager=_pool(files / "ca.crt"))
        self._token = files / "token"

    @classmethod
    def here(cls, files: Path = _FILES) -> "PodClient | None":
        """The cluster that this process is a pod of; None if it is in none, or has no account there."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not all((files / name).is_file() for name in ("ca.crt", "token")):
            return None
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{port}", files)

    def update_params_for_auth(self, headers: dict[str, str], queries: object, settings: object) -> None:
        """Add the token, which the node replaces before it expires."""
        headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"


def _pool(authority: Path) -> "urllib3.PoolManager":
    import urllib3

    return urllib3.PoolManager(maxsize=_CONNECTIONS, cert_reqs="CERT_REQUIRED", ca_certs=str(authority))
