"""The door before Dagster's pages: whoever has the token comes in, and no other page of the browser does."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from ft_assets.server.dagster_proxy import dagster_proxy, new_prefix
from tests.e2e.dagster_server import free_port
from tests.listening import listening

PREFIX, TOKEN, ORIGIN = new_prefix(), "a-token", "http://127.0.0.1:3000"
SOCKET = "ws://127.0.0.1:3000/graphql"
LAUNCH = {"query": "mutation { launchRun }"}
ASKED: list[str] = []


async def echo(socket: WebSocket) -> None:
    await socket.accept(socket.scope["subprotocols"][0])
    while True:
        try:
            await socket.send_text(f"echo {await socket.receive_text()}")
        except WebSocketDisconnect:
            return


async def graphql(request: Request) -> Response:
    ASKED.append(request.method)
    return JSONResponse({"asked": await request.json() if request.method == "POST" else None})


def index(request: Request) -> Response:
    return HTMLResponse(f"<script src='{PREFIX}/main.js'></script>{request.url.path} {request.headers.get('cookie')}")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """What Dagster's server is: it answers everybody, and takes GraphQL by GET too."""
    routes = [
        Route("/graphql", graphql, methods=["GET", "POST"]),
        WebSocketRoute("/graphql", echo),
        Route("/{path:path}", index),
    ]
    with listening(Starlette(routes=[Mount(PREFIX, routes=routes)]), log_level="error", beside=True) as address:
        yield address


@pytest.fixture
def stranger(upstream: str) -> Iterator[TestClient]:
    ASKED.clear()
    with TestClient(dagster_proxy(upstream, PREFIX, TOKEN), base_url=ORIGIN) as client:
        yield client


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    entered = stranger.get(f"/?token={TOKEN}")
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    return stranger


def test_who_has_the_token_sees_dagster_and_not_below_which_path_it_lies(browser: TestClient) -> None:
    page = browser.get("/runs/1%2F2?x=%3D")
    assert page.text.startswith("<script src='/main.js'></script>/runs/1/2")
    assert page.text.endswith("None")
    assert page.headers["x-frame-options"] == "DENY"
    own = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/graphql", json=LAUNCH, headers=own).json() == {"asked": LAUNCH}
    with browser.websocket_connect(SOCKET, subprotocols=["graphql-ws"], headers={"Origin": ORIGIN}) as socket:
        assert socket.accepted_subprotocol == "graphql-ws"
        socket.send_text("a")
        assert socket.receive_text() == "echo a"


def test_a_script_shows_the_token_as_a_bearer_and_a_wrong_one_opens_nothing(stranger: TestClient) -> None:
    answers = {
        token: stranger.post("/graphql", json=LAUNCH, headers={"Authorization": f"Bearer {token}"}).status_code
        for token in (TOKEN, "a-toke", "")
    }
    assert list(answers.values()) == [200, 401, 401]
    for path in ("/", "/?token=", "/?token=a-toke", "/runs"):
        refused = stranger.get(path)
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
    with pytest.raises(WebSocketDisconnect), stranger.websocket_connect(SOCKET, headers={"Origin": ORIGIN}):
        pass


@pytest.mark.parametrize(
    ("status", "method", "path", "headers"),
    [
        (405, "GET", "/graphql?query=mutation", {}),
        (405, "GET", "/%67raphql?query=mutation", {"Sec-Fetch-Mode": "navigate"}),
        (405, "POST", "/report_asset_materialization/adapter", {"Content-Type": "application/json"}),
        (405, "DELETE", "/graphql", {}),
        (405, "OPTIONS", "/graphql", {"Origin": "https://evil.example"}),
        (415, "POST", "/graphql", {"Content-Type": "text/plain"}),
        (415, "POST", "/graphql", {"Content-Type": "application/x-www-form-urlencoded"}),
        (415, "POST", "/graphql", {"Content-Type": "multipart/form-data; boundary=application/json"}),
        (403, "POST", "/graphql", {"Content-Type": "application/json", "Origin": "https://evil.example"}),
        (403, "POST", "/graphql", {"Content-Type": "application/json", "Origin": "http://127.0.0.1:8080"}),
        (403, "POST", "/graphql", {"Content-Type": "application/json", "Origin": "null"}),
        (403, "POST", "/graphql", {"Content-Type": "application/json", "Sec-Fetch-Site": "same-site"}),
        (403, "GET", "/runs", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
        (421, "GET", "/", {"Host": "evil.example"}),
        (421, "GET", "/", {"Host": "127.0.0.1.evil.example:3000"}),
        (421, "POST", "/graphql", {"Host": "evil.example:3000", "Origin": "http://evil.example:3000"}),
    ],
)
def test_no_other_page_of_the_same_browser_reaches_dagster(
    browser: TestClient, status: int, method: str, path: str, headers: dict[str, str]
) -> None:
    """With the cookie of whoever came in: the attack launched runs from any page that was open."""
    body = b'{"query": "mutation { launchRun }"}' if method == "POST" else None
    assert browser.request(method, path, headers=headers, content=body).status_code == status
    assert ASKED == []


NAME = "https://dagster.example.com"


@pytest.fixture
def ingress(upstream: str) -> Iterator[TestClient]:
    """A browser that comes to the pages of a cluster by their name, through a proxy with TLS."""
    ASKED.clear()
    with TestClient(dagster_proxy(upstream, PREFIX, TOKEN, [NAME]), base_url=NAME) as client:
        assert "secure" in client.get(f"/?token={TOKEN}").headers["set-cookie"].lower()
        yield client


def test_the_pages_have_the_names_that_they_are_told_and_localhost(ingress: TestClient) -> None:
    own = {"Origin": NAME, "Sec-Fetch-Site": "same-origin"}
    assert ingress.post("/graphql", json=LAUNCH, headers=own).json() == {"asked": LAUNCH}
    forwarded = {"Host": "localhost:3000", "Authorization": f"Bearer {TOKEN}"}
    assert ingress.post("/graphql", json=LAUNCH, headers=forwarded).status_code == 200


@pytest.mark.parametrize(
    ("status", "host", "origin"),
    [
        (403, "dagster.example.com", "http://dagster.example.com"),
        (403, "dagster.example.com", "https://other.example.com"),
        (403, "dagster.example.com", "http://localhost:3000"),
        (403, "localhost:3000", NAME),
        (421, "dagster.example.com:8443", "https://dagster.example.com:8443"),
        (421, "dagster.example.com.evil.example", "https://dagster.example.com.evil.example"),
        (421, "10.0.0.9:3000", "http://10.0.0.9:3000"),
    ],
)
def test_no_other_origin_launches_by_the_pages_name_on_a_cluster(
    ingress: TestClient, status: int, host: str, origin: str
) -> None:
    asked = ingress.post("/graphql", json=LAUNCH, headers={"Host": host, "Origin": origin})
    assert (asked.status_code, ASKED) == (status, [])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:8080"},
        {"Origin": "http://evil.example", "Host": "evil.example"},
    ],
)
def test_no_other_page_subscribes(browser: TestClient, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect), browser.websocket_connect(SOCKET, ["graphql-ws"], headers=headers):
        pass


def test_a_dagster_that_is_not_there_yet_is_said(upstream: str) -> None:
    with TestClient(dagster_proxy(f"http://127.0.0.1:{free_port()}", PREFIX, TOKEN), base_url=ORIGIN) as client:
        client.get(f"/?token={TOKEN}")
        waiting = client.get("/")
        # The page looks again by itself.
        assert (waiting.status_code, 'http-equiv="refresh"' in waiting.text) == (503, True)
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(SOCKET, ["graphql-ws"], headers={"Origin": ORIGIN}),
        ):
            pass
