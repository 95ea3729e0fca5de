"""From traffic to the next model, unattended: users like answers, which become rows; the next version is trained on
them, the gates accept, and a rollout on live traffic moves the new adapter to production.

The daemon's sensors are looked at here, one after the other; ``test_loop`` has a real daemon.
"""

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
from ft_resources.artifacts import Artifacts
from ft_sensors.retraining import retraining_sensor
from ft_sensors.rollouts import rollouts_sensor
from ft_sensors.sources import sources_sensor
from tests.e2e.dagster_server import LONG_S, wait_for
from tests.e2e.ft_serve import ft_serve
from tests.e2e.loop_world import Daemon, asked, ended, hub_with_recipe, set_up, standing, upload
from tests.e2e.project import Project, make_project

# Its parts: kept answers and thumbs (server/test_traffic.py), rows of them (sensors/test_liked_answers.py), the rollout
# (sensors/test_notices.py), and the submission of a subscribed version (sensors/test_retraining.py).
pytestmark = [pytest.mark.e2e, pytest.mark.long]

LINE = "acme.things.tiny"
LIKED = 12
ANSWER = "green and blue, as ever"


@pytest.fixture
def project(safe_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    project = make_project(tmp_path / "project")
    rollouts = {
        **{"automatic": True, "steps": [50, 100], "minimum": 3},
        **{"outcomes": ["latency"], "margins": {"latency": 0.5}, "latency_limit_s": 600.0},
    }
    lines = {"things.tiny": {"traffic": {"keep": True}, "rollouts": rollouts}}
    set_up(project, monkeypatch, "things", lines=lines)
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.delenv("FT_MODELS", raising=False)
    with hub_with_recipe(project, safe_base, monkeypatch):
        yield project


@contextmanager
def client(project: Project) -> Iterator[OpenAI]:
    """A client of the tenant, with ``ft serve`` on the project."""
    _, key = api.create_key("acme", name="product", actor="root")
    with ft_serve(project) as url, OpenAI(base_url=f"{url}/v1", api_key=key, timeout=LONG_S) as made:
        yield made


def ask(users: OpenAI, room: int, *, tokens: int = 1, store: bool = False) -> tuple[str, str] | None:
    """Id and text of an answer about a room that no row names; None while no server has the adapter."""
    messages = [{"role": "user", "content": f"what colour is the box in room {room}?"}]
    try:
        answer = users.chat.completions.create(
            model=LINE,
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=tokens,
            user=f"user-{room}",
            store=store,
        )
    except APIError:
        return None
    return answer.id, answer.choices[0].message.content or ""


def test_liked_answers_become_the_next_model_in_production(project: Project) -> None:
    store, daemon = project.store, Daemon(project)
    upload(project, "things", 160)
    daemon.look(retraining_sensor)
    first = ended(store, "acme.things.v1|tiny.v1")
    assert first.status is SubmissionStatus.ACCEPTED, first.reason
    api.promote(LINE, "production", reason="we want it", store=store, actor="ann")
    policy = project.folder / "traffic.yaml"
    source = {"traffic": {"recipe": "tiny", "beside": 1, "minimum": LIKED}}
    policy.write_text(yaml.safe_dump({"source": source, "split": {"holdout": 0.3}}))
    api.watch_dataset("acme.things", policy, store=store, actor="ann")
    with client(project) as users:
        wait_for(lambda: ask(users, 1000), LONG_S, "an answer")
        for room in range(1001, 1001 + LIKED):
            answer, text = ask(users, room, tokens=40, store=True) or ("", "")
            assert text == ANSWER
            users.post("/ft/feedback", body={"id": answer, "model": LINE, "thumb": "up"}, cast_to=httpx.Response)

        def retrained() -> bool:
            daemon.look(sources_sensor, retraining_sensor)
            return asked(store, "acme.things.v2|tiny.v1", "train") is not None

        wait_for(retrained, LONG_S, "the training on liked answers")
        second = ended(store, "acme.things.v2|tiny.v1")
        assert second.status is SubmissionStatus.ACCEPTED, second.reason
        rooms = iter(range(10_000, 20_000))

        def rolled_out() -> bool:
            for _ in range(4):
                ask(users, next(rooms))
            daemon.look(rollouts_sensor)
            return standing(store, LINE, "production") == second.adapter

        wait_for(rolled_out, LONG_S, "the rollout's end")
    raw = identity.raw_dataset(Artifacts(store), "acme.things.v2")
    assert len(raw.read("upload/liked-answers.jsonl").splitlines()) == LIKED
    (rollout,) = read_rollouts(store, LINE).rollouts
    assert [record.kind for record in rollout.records] == ["started", "completed"]
    assert (rollout.started.candidate.address, rollout.started.actor) == (second.adapter, "auto")
    assert rollout.started.incumbent.address == first.adapter
