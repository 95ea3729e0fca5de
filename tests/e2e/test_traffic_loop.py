"""From traffic to the next model, unattended: users like answers, which become rows; a daemon trains on them, the gates
accept, and a rollout on live traffic moves the new adapter to production."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from openai import APIError, OpenAI

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from tests.e2e.dagster_server import dagster_server, free_port, tail, wait_for
from tests.e2e.loop_world import LONG, act, ended, hub_with_recipe, standing, upload
from tests.e2e.project import Project, make_project
from tests.workers.evals.safety_world import write_safety_suite

pytestmark = pytest.mark.e2e

LINE = "acme.things.tiny"
LIKED = 12
ANSWER = "green and blue, as ever"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    rollouts = {
        **{"automatic": True, "steps": [50, 100], "minimum": 10},
        **{"outcomes": ["latency"], "margins": {"latency": 0.5}, "latency_limit_s": 60.0},
    }
    settings = {
        "served_bases": ["hub:org/tiny"],
        # The suite is too small to show that nothing is lost.
        "production_regression": {"max_drop_points": 100.0},
        "tenants": {
            "acme": {
                "subscriptions": [{"dataset": "things", "recipe": "tiny.v1"}],
                "lines": {"things.tiny": {"traffic": {"keep": True}, "rollouts": rollouts}},
            }
        },
    }
    (project.folder / "tenants.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    monkeypatch.setenv("FT_TRACKING", "off")
    monkeypatch.delenv("FT_MODELS", raising=False)
    add_suite(project.store, write_safety_suite(project.folder / "care"), "care.v1", "test")
    return project


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with hub_with_recipe(project, monkeypatch):
        yield


@contextmanager
def served(project: Project) -> Iterator[OpenAI]:
    """``ft serve`` on the project, and a client of the tenant."""
    _, key = api.create_key("acme", name="product", actor="root")
    port, log = free_port(), (project.folder / "serve.log").open("ab")
    serve = [str(Path(sys.executable).parent / "ft"), "serve", "--port", str(port)]
    server = subprocess.Popen(serve, env=project.environment, cwd=project.folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(port), 60, "the API")
        with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, timeout=120) as client:
            yield client
    finally:
        server.terminate()
        server.wait(20)
        log.close()
        print(tail(project.folder / "serve.log"))


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False).status_code == 401
    except httpx.HTTPError:
        return False


def ask(client: OpenAI, room: int, *, store: bool = False) -> tuple[str, str] | None:
    """Id and text of an answer about a room that no row names; None while no server has the adapter."""
    messages = [{"role": "user", "content": f"what colour is the box in room {room}?"}]
    try:
        answer = client.chat.completions.create(
            model=LINE,
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=40,
            user=f"user-{room}",
            store=store,
        )
    except APIError:
        return None
    return answer.id, answer.choices[0].message.content or ""


@contextmanager
def users(client: OpenAI) -> Iterator[None]:
    """Users who go on asking, one after the other."""
    gone = threading.Event()

    def go_on() -> None:
        room = 10_000
        while not gone.wait(0.3):
            room += 1
            ask(client, room)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        gone.set()
        thread.join()


def test_liked_answers_become_the_next_model_in_production(project: Project, hub: None) -> None:
    store = project.store
    upload(project, "things", 160)
    with dagster_server(project) as daemon:
        first = ended(store, "acme.things.v1|tiny.v1")
        assert first.status is SubmissionStatus.ACCEPTED, first.reason
        act(daemon, store, "promote", LINE, target=LINE, stage="production")
        policy = project.folder / "traffic.yaml"
        source = {"traffic": {"recipe": "tiny", "beside": 1, "minimum": LIKED}}
        policy.write_text(yaml.safe_dump({"source": source, "split": {"holdout": 0.3}}))
        api.watch_dataset("acme.things", policy, store=store, actor="ann")
        with served(project) as client:
            wait_for(lambda: ask(client, 1000), LONG, "an answer")
            for room in range(1001, 1001 + LIKED):
                answer, text = ask(client, room, store=True) or ("", "")
                assert text == ANSWER
                feedback = {"id": answer, "model": LINE, "thumb": "up"}
                client.post("/ft/feedback", body=feedback, cast_to=httpx.Response)
            second = ended(store, "acme.things.v2|tiny.v1")
            assert second.status is SubmissionStatus.ACCEPTED, second.reason
            with users(client):
                wait_for(lambda: standing(store, LINE, "production") == second.adapter, LONG, "the rollout's end")
    raw = identity.raw_dataset(Artifacts(store), "acme.things.v2")
    assert len(raw.read("upload/liked-answers.jsonl").splitlines()) == LIKED
    (rollout,) = read_rollouts(store, LINE).rollouts
    assert [record.kind for record in rollout.records] == ["started", "completed"]
    assert (rollout.started.candidate.address, rollout.started.actor) == (second.adapter, "auto")
    assert rollout.started.incumbent.address == first.adapter
