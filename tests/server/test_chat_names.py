"""Names of models that a tenant may ask: what each means, for whom, and while the store is away."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from ft_assets import api
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.server.remembered import FRESH_S
from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store
from tests.clock import Clock
from tests.e2e.project import Project
from tests.made import add_recipe
from tests.server.chat_world import ASKS, GREEDY, LINE, Line, expected
from tests.server.chat_world import engine as engine
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.conftest import Client, settled, submission_of, upload


def test_names_mean_production_staging_or_what_ever_stood_there(
    project: Project, line: Line, client: Client, ages: Clock
) -> None:
    first, second = line.adapter(1), line.adapter(2)
    answers = {adapter.digest: expected(project, adapter, ASKS) for adapter in (first, second)}
    assert len(set(answers.values())) == 2
    acme = client()

    def fingerprint(name: str) -> str:
        found = acme.chat.completions.create(model=name, messages=ASKS, **GREEDY)
        assert found.model == name
        digest = next(each for each in answers if found.system_fingerprint == f"fp_{each[:16]}")
        assert found.choices[0].message.content == answers[digest]
        return digest

    line.promote(first, "staging")
    with pytest.raises(openai.NotFoundError, match=r"no adapter of acme.colours.tiny is in production.*@staging"):
        fingerprint(LINE)
    assert fingerprint(f"{LINE}@staging") == first.digest
    line.promote(first)
    line.promote(second)
    assert fingerprint(LINE) == second.digest
    assert fingerprint(f"{LINE}@staging") == first.digest
    for each in (first, second):
        assert fingerprint(f"{LINE}@{each.digest[:16]}") == each.digest
    line.promote(first, kind="rollback")
    ages.advance(FRESH_S)
    assert fingerprint(LINE) == first.digest
    # What was rolled back can still be asked by its digest.
    assert fingerprint(f"{LINE}@{second.digest[:16]}") == second.digest
    assert [model.id for model in acme.models.list()] == [LINE, f"{LINE}@staging", "tiny"]
    shown = acme.models.retrieve(f"{LINE}@{second.digest[:16]}")
    assert (shown.owned_by, shown.model_extra["ft"]["adapter"]) == ("acme", str(second.address))


def test_a_jobs_model_is_asked_by_its_name_until_it_is_deleted(
    project: Project, line: Line, client: Client, ages: Clock
) -> None:
    adapter, acme = line.adapter(1), client(role="admin")
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    name = acme.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    found = acme.chat.completions.create(model=name, messages=ASKS, **GREEDY)
    assert found.choices[0].message.content == expected(project, adapter, ASKS)
    missing = refusal(client("globex"), name)
    assert missing == refusal(client("globex"), name.replace("globex", "acme"))
    acme.models.delete(name)
    ages.advance(FRESH_S)
    assert refusal(acme, name) == missing


def refusal(client: OpenAI, name: str) -> str:
    """What a name of no model is answered with, without the name; "" if there is an answer."""
    try:
        client.chat.completions.create(model=name, messages=ASKS, max_tokens=1)
    except openai.NotFoundError as error:
        return error.response.text.replace(name, "NAME")
    return ""


def test_another_tenants_models_are_answered_as_what_is_not_there(line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    line.promote(adapter, "staging")
    acme, globex = client(), client("globex")
    there = [LINE, f"{LINE}@staging", f"{LINE}@{adapter.digest[:16]}"]
    nowhere = [
        "acme.colours.none", "globex.colours.tiny", "globex.colours.tiny@staging", f"{LINE}@{'0' * 16}", f"{LINE}@",
        f"{LINE}@dev", "gpt-5", "../acme/colours", "ft:tiny:acme::" + "f" * 24, "globex.colours",
    ]  # fmt: skip
    said = {refusal(globex, name) for name in [*there, *nowhere]}
    assert len(said) == 1
    assert '"code":"not_found"' in said.pop()
    for name in there:
        assert refusal(acme, name) == ""
        with pytest.raises(openai.NotFoundError):
            globex.models.retrieve(name)
    assert [model.id for model in globex.models.list()] == ["tiny"]


def test_a_store_that_is_away_for_a_while_changes_nothing(
    line: Line, client: Client, ages: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.promote(line.adapter(1))
    acme = client()
    first = acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY)

    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("it is away", where="store", remedy="Wait.")

    for name in ("get", "entries", "names", "folders", "exists", "read", "download"):
        monkeypatch.setattr(Store, name, away)
    ages.advance(FRESH_S)
    for _ in range(2):
        assert acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY).choices == first.choices
    with pytest.raises(openai.InternalServerError) as caught:
        acme.chat.completions.create(model=f"{LINE}@staging", messages=ASKS)
    assert caught.value.code == "store_unavailable"
    with pytest.raises(openai.InternalServerError):
        acme.files.list()


def test_an_erased_tenant_asks_no_more_once_what_was_known_of_it_is_old(
    project: Project, line: Line, client: Client, ages: Clock
) -> None:
    line.promote(line.adapter(1))
    acme = client()
    acme.chat.completions.create(model=LINE, messages=ASKS, max_tokens=1)
    add_recipe(project.store, "tiny.v1")
    api.erase_tenant("acme", reason="left", store=project.store, actor="root")
    ages.advance(FRESH_S)
    with pytest.raises(openai.AuthenticationError, match="was erased"):
        acme.chat.completions.create(model=LINE, messages=ASKS, max_tokens=1)
