"""The official client, over a connection that answers what a test says."""

from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration

Answer = tuple[int, dict[str, str], bytes]


def client_over(answer: Callable[[str, str], Answer]) -> ApiClient:
    """A client whose requests are answered with a status, headers and a body, by method and path."""
    client = ApiClient(Configuration(host="https://cluster"))

    def request(method: str, url: str, **_: Any) -> urllib3.HTTPResponse:
        status, headers, body = answer(method, url.removeprefix("https://cluster"))
        return urllib3.HTTPResponse(BytesIO(body), headers, status, preload_content=False)

    client.rest_client.pool_manager = SimpleNamespace(request=request)
    return client
