"""Conversations are kept where the line's settings and the request both say so, and nowhere else."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import openai
import pytest
import yaml
from fastapi import FastAPI

from ft_assets.records.conversations import Conversation, read_conversations
from tests.e2e.project import Project
from tests.server.chat_world import ASKS, LINE, Line
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.conftest import Client
from tests.server.scripted_server import Scripted


@pytest.fixture
def engine() -> Iterator[Scripted]:
    made = Scripted(["In the", " forest."])
    made.reason = "stop"
    yield made
    made.close()


@pytest.fixture
def keeps(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line's settings let conversations be kept."""
    tenant, _, name = LINE.partition(".")
    settings = {"tenants": {tenant: {"lines": {name: {"traffic": {"keep": True}}}}}}
    (project.folder / "tenants.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))


def kept(served: FastAPI, line: Line) -> list[Conversation]:
    later = datetime.now(UTC) + timedelta(minutes=2)
    served.state.context.outcomes.conversations.flush(later)
    return list(read_conversations(line.store, LINE, "2020-01-01", later.isoformat()))


@pytest.mark.usefixtures("keeps")
def test_what_a_request_lets_be_kept_is_kept_with_its_answer(line: Line, client: Client, served: FastAPI) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    acme = client()
    answer = acme.chat.completions.create(model=LINE, messages=ASKS, store=True)
    stream = acme.chat.completions.create(model=LINE, messages=ASKS, store=True, stream=True)
    (streamed,) = {part.id for part in stream}
    acme.chat.completions.create(model=LINE, messages=ASKS)
    acme.chat.completions.create(model=LINE, messages=ASKS, store=False)
    found = kept(served, line)
    assert {each.request for each in found} == {answer.id, streamed}
    assert all(each.messages == ASKS and each.answer == "In the forest." for each in found)
    assert {each.model for each in found} == {f"{LINE}@{adapter.digest[:16]}"}


@pytest.mark.usefixtures("keeps")
def test_an_answer_is_kept_with_the_thoughts_before_it(
    project: Project, line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    line.promote(line.adapter(1))
    # The last token ends the answer.
    engine.write(project.folder / "base", "<think>\nwhere?\n</think>\n\nIn the wood<|end|>")
    engine.reason = "stop"
    client().chat.completions.create(model=LINE, messages=ASKS, store=True)
    (found,) = kept(served, line)
    assert found.answer == "<think>\nwhere?\n</think>\n\nIn the wood"


@pytest.mark.usefixtures("keeps")
def test_an_answer_that_broke_off_or_was_asked_of_one_adapter_is_not_kept(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    line.promote(line.adapter(1))
    line.promote(line.adapter(2), "staging")
    acme = client()
    with pytest.raises(openai.BadRequestError, match="are not kept"):
        acme.chat.completions.create(model=f"{LINE}@staging", messages=ASKS, store=True)
    engine.reason = "length"
    acme.chat.completions.create(model=LINE, messages=ASKS, store=True)
    engine.ends = False
    with pytest.raises(openai.APIError):
        acme.chat.completions.create(model=LINE, messages=ASKS, store=True)
    assert kept(served, line) == []


def test_where_the_lines_settings_keep_nothing_who_wants_it_is_told(
    line: Line, client: Client, served: FastAPI
) -> None:
    line.promote(line.adapter(1))
    with pytest.raises(openai.BadRequestError) as refused:
        client().chat.completions.create(model=LINE, messages=ASKS, store=True)
    assert refused.value.body["param"] == "store"
    assert kept(served, line) == []
