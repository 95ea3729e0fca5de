"""A question's spans: the request, the asking of a server, and the engine's answer are one trace without the words."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ft_assets import api
from tests.collector import Collector, attributes, collecting
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.server.chat_world import LINE, Line, OwnFleet
from tests.server.conftest import Client
from tests.workers.serving.world import Served, make_engine

ASKS = [{"role": "user", "content": "where is the fox?"}]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting(monkeypatch) as made:
        yield made


@pytest.fixture
def fleet(project: Project, collector: Collector, tmp_path: Path) -> Iterator[OwnFleet]:
    line, engine = Line(project), Served(make_engine(make_fake_base(tmp_path / "engine")))
    line.promote(line.adapter(1))
    made = OwnFleet(line.artifacts, line.base.digest)
    made.add(engine.url)
    yield made
    engine.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_is_one_trace_from_the_request_to_the_engine(
    client: Client, collector: Collector, stream: bool
) -> None:
    answer = client().chat.completions.create(model=LINE, messages=ASKS, temperature=0, max_tokens=5, stream=stream)
    if stream:
        list(answer)
    request = collector.named("POST /v1/chat/completions")
    asked, generated = collector.named("ask a server"), collector.named("generate")
    assert len({request.trace_id, asked.trace_id, generated.trace_id}) == 1
    assert (asked.parent_span_id, generated.parent_span_id) == (request.span_id, asked.span_id)
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(request)["ft.request"].startswith("req_")
    assert attributes(generated)["ft.completion_tokens"] == 5
    assert [event.name for event in generated.events] == ["prompt read"]
    assert b"fox" not in b"".join(collector.bodies)


def test_the_trace_that_a_client_names_is_not_joined(
    fleet: OwnFleet, client: Client, url: str, access: api.Access, collector: Collector
) -> None:
    _, key = api.create_key("acme", role="viewer", name="ann", access=access, actor="root")
    foreign = "0af7651916cd43dd8448eb211c80319c"
    headers = {"authorization": f"Bearer {key}", "traceparent": f"00-{foreign}-b7ad6b7169203331-01"}
    assert httpx.get(f"{url}/models", headers=headers, trust_env=False).status_code == 200
    assert collector.named("GET /v1/models").trace_id.hex() != foreign
