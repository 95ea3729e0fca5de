"""What users liked becomes the next version of the line's dataset, beside the rows that it began with."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.rollouts.pruning import remove_old
from ft_assets.records.conversations import Conversation, ConversationLog, read_conversations
from ft_assets.records.outcomes import Outcome, OutcomeLog, read_outcomes
from ft_assets.records.shadows import CONVERSATIONS as SHADOW_CONVERSATIONS
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from ft_sensors.sources import sources_sensor
from tests.e2e.project import Project
from tests.sensors.conftest import look

pytestmark = pytest.mark.dagster

LINE = "acme.tickets.support"
MODEL = f"{LINE}@{'a' * 16}"
BEGIN = datetime.now(UTC) - timedelta(days=3)
POLICY = "source: {traffic: {recipe: support, beside: 1, minimum: 3}}\n"
NEVER = "9999"


@pytest.fixture(autouse=True)
def settings(project: Project, monkeypatch: pytest.MonkeyPatch) -> TenantsFile:
    lines = {"tickets.support": {"traffic": {"keep": True, "keep_days": 60}}}
    (project.folder / "tenants.yaml").write_text(json.dumps({"tenants": {"acme": {"lines": lines}}}))
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder))
    return load_tenants()


@pytest.fixture
def first(project: Project) -> str:
    """The version that the dataset began with, with rows that were set aside."""
    row = {"prompt": "what is {0}?", "completion": "thing {0}"}
    for name, numbers in (("tickets.jsonl", range(120)), ("aside.jsonl", range(200, 230))):
        rows = [{key: text.format(number) for key, text in row.items()} for number in numbers]
        (project.folder / name).write_text("".join(json.dumps(each) + "\n" for each in rows))
    files = [project.folder / "tickets.jsonl"]
    added = api.add_dataset(files, "acme.tickets", holdout=[project.folder / "aside.jsonl"], store=project.store)
    return str(added.key)


class Traffic:
    """Conversations of the line and what users say of them, a minute after the other."""

    def __init__(self, project: Project) -> None:
        self._store, self._minute = project.store, 0

    def say(self, text: str, thumb: float | None) -> None:
        self._minute += 1
        at = (BEGIN + timedelta(minutes=self._minute)).isoformat(timespec="milliseconds")
        asked = [{"role": "user", "content": f"where is {text}?"}]
        conversations, outcomes = ConversationLog(self._store, text), OutcomeLog(self._store, text)
        conversations.add(Conversation(model=MODEL, request=text, messages=asked, answer=f"{text} is here", at=at))
        if thumb is not None:
            for kind, value in (("latency", 0.5), ("thumbs", thumb)):
                outcomes.add(Outcome(model=MODEL, request=text, kind=kind, value=value, at=at))
        for log in (conversations, outcomes):
            log.flush(datetime.now(UTC))


@pytest.fixture
def traffic(project: Project) -> Traffic:
    return Traffic(project)


def watch(project: Project, policy: str = POLICY) -> None:
    file = project.folder / "dataset.yaml"
    file.write_text(policy)
    api.watch_dataset("acme.tickets", file, store=project.store, actor="ann")


def launched(project: Project, instance: dg.DagsterInstance) -> bool:
    return bool(getattr(look(project, instance, sources_sensor), "run_requests", None))


def test_enough_liked_answers_are_a_version_beside_the_rows_it_began_with(project, first, traffic, tmp_path) -> None:
    watch(project)
    with dg.DagsterInstance.ephemeral() as instance:
        for text, thumb in (("fox", 1.0), ("owl", 0.0), ("hen", None), ("cat", 1.0)):
            traffic.say(text, thumb)
        assert not launched(project, instance)
        traffic.say("dog", 1.0)
        assert launched(project, instance)
        pulled, added = api.pull_dataset("acme.tickets", store=project.store, actor="ann")
        assert not launched(project, instance)
        traffic.say("bee", 1.0)
        assert not launched(project, instance)
    assert (first, str(added.key)) == ("acme.tickets.v1", "acme.tickets.v2")
    assert pulled.seen.startswith("liked until ")
    raw = identity.raw_dataset(Artifacts(project.store), "acme.tickets.v2")
    assert sorted(name for name in raw.manifest.files if name != "policy.json") == [
        "holdout/aside.jsonl",
        "upload/liked-answers.jsonl",
        "upload/tickets.jsonl",
    ]
    rows = [json.loads(line)["messages"] for line in raw.read("upload/liked-answers.jsonl").splitlines()]
    assert [each[0]["content"] for each in rows] == ["where is fox?", "where is cat?", "where is dog?"]
    assert [each[1] for each in rows] == [
        {"role": "assistant", "content": f"{text} is here"} for text in ("fox", "cat", "dog")
    ]


def test_without_a_liked_answer_there_is_nothing_to_pull(project: Project, first: str, traffic: Traffic) -> None:
    watch(project)
    traffic.say("owl", 0.0)
    with pytest.raises(UserError, match="none of the kept answers was liked"):
        api.pull_dataset("acme.tickets", store=project.store)


def test_conversations_and_the_thumbs_for_them_go_when_they_are_old(project, traffic, settings) -> None:
    traffic.say("fox", 1.0)
    asked = [{"role": "user", "content": "who?"}]
    copied = ConversationLog(project.store, "one", folder=SHADOW_CONVERSATIONS)
    copied.add(Conversation(model=MODEL, request="r", messages=asked, answer="a", at=BEGIN.isoformat()))
    copied.flush(BEGIN + timedelta(days=1))
    for days, left in ((50, 1), (64, 0)):
        list(remove_old(project.store, settings, BEGIN + timedelta(days=days), []))
        assert len(list(read_conversations(project.store, LINE, "0000", NEVER))) == left
        thumbs = [each for each in read_outcomes(project.store, LINE, "0000", NEVER) if each.kind == "thumbs"]
        assert len(thumbs) == left
        shadowed = read_conversations(project.store, LINE, "0000", NEVER, folder=SHADOW_CONVERSATIONS)
        assert len(list(shadowed)) == left
