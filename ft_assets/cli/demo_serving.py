"""The end of ``ft demo``: the adapter in production answers one question over HTTP."""

import json
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from ft_assets import api
from ft_assets.server.app import api_app
from ft_assets.server.following import Following
from ft_assets.server.serving import server_of
from ft_assets.settings.servers import ServersFile
from ft_resources.errors import UserError

if TYPE_CHECKING:
    from ft_resources.store import Store

_WAIT_S = 300.0


def ask_in_production(line: str, question: str, *, store: "Store") -> tuple[str, str]:
    """Serve what stands in stages, ask the adapter in production of ``line``, and end everything; the command that
    asks, and the answer. Raises UserError where it is not served or does not answer."""
    access = api.open_access()
    made, key = api.create_key(line.partition(".")[0], name="demo", expires="1h", access=access)
    body = {
        "model": line,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 32,
        "temperature": 0,
    }
    try:
        with _serving(store, access) as url:
            _wait_for(line)
            address = f"{url}/v1/chat/completions"
            answer = httpx.post(address, json=body, headers={"authorization": f"Bearer {key}"}, timeout=120)
    finally:
        api.revoke_key(made.prefix, access=access)
    if answer.is_error:
        raise UserError(answer.text, where=address, remedy="Check the servers: ft serve status")
    # The key is no argument: all users of a machine see those.
    key_first = """printf 'Authorization: Bearer %s' "$FT_API_KEY" | """
    command = f"{key_first}curl {address} -H @- --json {shlex.quote(json.dumps(body))}"
    return command, str(answer.json()["choices"][0]["message"]["content"])


@contextmanager
def _serving(store: "Store", access: Any) -> Iterator[str]:
    """Run the HTTP API on a free port, with a model server for it to ask; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fleet = api.open_fleet(embedded=1, servers=ServersFile(), store=store)
    assert fleet is not None
    following = Following(api.follow_lines(fleet, store=store), api.watch_drift(store=store))
    server = server_of(api_app(store, access, fleet=fleet), host="127.0.0.1", port=port, drain_s=5)
    thread = threading.Thread(target=server.run, name="api", daemon=True)
    following.start()
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        following.stop()
        fleet.close()


def _wait_for(line: str) -> None:
    """Return once a server has the adapter in production of ``line``."""
    deadline = time.monotonic() + _WAIT_S
    trouble = ""
    while time.monotonic() < deadline:
        for each in api.serving_status().lines:
            if (each.line, each.stage) == (line, "production"):
                if each.servers:
                    return
                trouble = each.trouble
        time.sleep(0.2)
    raise UserError(
        f"it was not served within {_WAIT_S:.0f} s: {trouble}", where=line, remedy="Read the log in FT_STATE/serving."
    )
