"""The try-box: a model and its base answer the same prompt, through the router, and a sentence stands where they
cannot."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from fastapi import FastAPI

from ft_assets import api
from ft_assets.control.access import rate_limits
from ft_assets.records.outcomes import read_outcomes
from ft_assets.records.submissions import Submission, SubmissionStatus, find_submission, finish
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.serving.errors import BadAdapter
from tests.clock import Clock
from tests.e2e.project import Project
from tests.server.chat_world import LINE, TEMPLATE, Line, OwnFleet
from tests.server.chat_world import engine as engine
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.console.world import Someone
from tests.server.scripted_server import Scripted
from tests.workers.serving.world import alone, plain

# A real engine answers.
pytestmark = pytest.mark.training

ASKED = "where is the fox?"
TOOLS = "{%- for tool in tools or [] -%}{{- '<|system|>' + tool.function.name -}}{%- endfor -%}"
_ANSWER = re.compile(
    r'<div class="answer" data-of="\w+"><b>(.*?)</b>.*?<pre class="text".*?>(.*?)</pre>\s*<p class="(\w+)">(.*?)</p>',
    re.DOTALL,
)


@pytest.fixture
def person(url: str, access: api.Access) -> Iterator[Callable[..., Someone]]:
    """Signs somebody of a tenant in."""
    with ExitStack() as opened:

        def make(tenant: str = "acme", role: api.Role = "member") -> Someone:
            _, key = api.create_key(tenant, role=role, name="ann", access=access, actor="root")
            client = opened.enter_context(httpx.Client(base_url=url.removesuffix("/v1")))
            return Someone(client, key).sign_in()

        yield make


Person = Callable[..., Someone]


def ask(person: Someone, path: str, prompt: str = ASKED, **fields: str) -> httpx.Response:
    """What the box at ``path`` answers to the page's script; of the model, unless ``of`` says otherwise."""
    data = {"form_token": person.token, "prompt": prompt, **fields}
    return person.client.post(f"/console/{path}/try", data=data, headers={**person.own, "x-part": "1"})


def parts(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events that the script is told."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(event.removeprefix("data: ")) for event in answer.text.split("\n\n") if event]


def both(person: Someone, path: str, prompt: str = ASKED, **fields: str) -> dict[str, str]:
    """What each of the two said, or its problem, by whom."""
    found = {}
    for of in ("model", "base"):
        who, *told = parts(ask(person, path, prompt, of=of, **fields))
        found[who["who"]] = "".join(each.get("text", "") + each.get("problem", "") for each in told)
    return found


def shown_both(page: httpx.Response) -> dict[str, str]:
    """The same on a page, without the script."""
    assert page.status_code == 200, page.text
    found = _ANSWER.findall(page.text.rpartition("</template>")[2])
    return {who: unescape(text or (said if kind == "problem" else "")) for who, text, kind, said in found}


def expected(project: Project, adapter: Artifact | None, system: str = "") -> str:
    """The greedy answer of Transformers and PEFT; of the base without an adapter."""
    base = project.folder / "base"
    tokenizer = ChatTokenizer.load(base)
    said = [{"role": "system", "content": system}] if system else []
    ids = ChatPrompts(base, tokenizer, TEMPLATE).prompt([*said, {"role": "user", "content": ASKED}], "here")
    model = plain(base, adapter.folder(Path("unused"))) if adapter else plain(base)
    found, _ = alone(model, ids, 256 - len(ids))
    return str(tokenizer.tokenizer.decode([each for each in found if each != 2], skip_special_tokens=True))


def test_a_line_and_its_base_answer_the_same_prompt(project: Project, line: Line, person: Person) -> None:
    first, second = line.adapter(1), line.adapter(2)
    line.promote(first)
    line.promote(second, "staging")
    viewer, path = person(role="viewer"), f"lines/{LINE}"
    page = viewer.get(path).text
    assert "<option>production</option><option>staging</option>" in page
    base = expected(project, None, "be brief")
    assert both(viewer, path, which="production", system="be brief") == {
        "base": base,
        f"production, {shown(first)}": expected(project, first, "be brief"),
    }
    # Without the script it is a page, which has the box again.
    whole = viewer.send(f"{path}/try", which="staging", system="be brief", prompt=ASKED)
    assert shown_both(whole) == {"base": base, f"staging, {shown(second)}": expected(project, second, "be brief")}
    assert ("<option selected>staging</option>" in whole.text, "Ask both" in whole.text) == (True, True)


def test_a_jobs_model_is_tried_on_its_page(project: Project, line: Line, person: Person) -> None:
    adapter, member = line.adapter(1), person()
    path = started(project, member)
    assert "Try it" not in member.get(path).text
    assert ask(member, path).status_code == 404
    finish(project.store, submission_of(project, path), SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    assert "Ask both" in member.get(f"{path}/live").text
    told = both(member, path)
    assert told == {"base": expected(project, None), f"candidate, {shown(adapter)}": expected(project, adapter)}
    stranger = person("globex", "admin")
    assert ask(stranger, path).status_code == 404


def test_the_page_says_why_nothing_can_be_tried(project: Project, line: Line, fleet: OwnFleet, person: Person) -> None:
    member, path = person(), f"lines/{LINE}"
    adapter = line.adapter(1)
    line.promote(adapter, "dev")
    assert "servers answer for what is in staging or production" in member.get(path).text
    line.promote(adapter)
    assert "Ask both" in member.get(path).text
    fleet.servers = []
    page = member.get(path).text
    assert ("Ask both" in page, "No server has this model" in page) == (False, True)
    assert ask(member, path).status_code == 404
    job = started(project, member)
    finish(project.store, submission_of(project, job), SubmissionStatus.REJECTED, reason="task_gain", suggestions=())
    assert "did not pass its gates is not served" in member.get(job).text


def test_one_answer_that_fails_leaves_the_other(
    line: Line, fleet: OwnFleet, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.promote(line.adapter(1))

    def torn(*_: object) -> None:
        raise BadAdapter("it is torn", where="adapter", remedy="Export it anew.")

    monkeypatch.setattr(fleet, "load", torn)
    model, base = both(person(), f"lines/{LINE}").values()
    assert "server" not in base
    assert model == "The server cannot load this model's adapter. The platform's operator can fix this."


def test_wrong_questions_are_told(line: Line, person: Person) -> None:
    line.promote(line.adapter(1))
    viewer, path = person(role="viewer"), f"lines/{LINE}"
    for prompt, fields, status, said in (
        ("  ", {}, 400, "The prompt is empty"),
        ("x", {"which": "dev"}, 404, "There is no &#39;dev&#39; to try"),
        ("x", {"form_token": "0" * 64}, 403, "was not sent by a page of this session"),
    ):
        answer = ask(viewer, path, prompt, **fields)
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    told = both(viewer, path, "fox " * 400)
    assert len(told) == 2
    assert all("the context holds 256 tokens" in each for each in told.values())


def test_what_a_model_says_is_escaped(line: Line, fleet: OwnFleet, person: Person) -> None:
    line.promote(line.adapter(1))
    engine = Scripted(["<script>alert", "(1)</script>"])
    fleet.servers = []
    fleet.add(engine.url)
    told = person().send(f"lines/{LINE}/try", prompt="<img src=x>").text
    engine.close()
    assert ("<script>" in told, "<img" in told) == (False, False)
    assert told.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2


def test_another_tenants_line_cannot_be_tried(line: Line, person: Person) -> None:
    line.promote(line.adapter(1))
    assert ask(person(), f"lines/{LINE}").status_code == 200
    stranger = person("globex", "admin")
    told, nothing = (ask(stranger, f"lines/{name}") for name in (LINE, LINE.replace("acme", "nobody")))
    assert (told.status_code, told.text.replace("acme", "nobody")) == (404, nothing.text)


def test_the_script_is_told_each_answer_by_itself_token_by_token(line: Line, person: Person) -> None:
    line.promote(line.adapter(1))
    told = parts(ask(person(), f"lines/{LINE}", of="model"))
    assert told[0]["who"].startswith("production, ")
    assert [each["tokens"] for each in told[1:]] == list(range(1, len(told)))
    assert [each["finish_reason"] for each in told[-2:-1]] == [None]
    assert told[-1]["finish_reason"] in ("stop", "length")


def test_tools_are_refused_where_the_template_shows_none_and_where_they_are_none(line: Line, person: Person) -> None:
    line.promote(line.adapter(1))
    member, path = person(), f"lines/{LINE}"
    told = both(member, path, tools='[{"type": "function", "function": {"name": "note"}}]')
    assert all("the chat template of this model shows it no tools" in each.lower() for each in told.values())
    for wrong in ("{}", "[" * 100_000, '["\\ud800"]', '[{"a": NaN}]'):
        assert "Write a JSON list of tools" in ask(member, path, tools=wrong).text
    line.promote(line.adapter(2, TOOLS + TEMPLATE))
    assert both(member, path, tools='[{"type": "function", "function": {"name": "note"}}]') != both(member, path)


def test_a_trial_counts_as_two_requests_and_is_no_traffic_of_the_line(
    project: Project, line: Line, served: FastAPI, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is given back meanwhile.
    monkeypatch.setattr(rate_limits, "time", Clock(time.time()))
    tiers = {
        "tiers": {"small": {"priority": "batch", "requests_per_minute": 100}},
        "tenants": {"acme": {"tier": "small"}},
    }
    (project.folder / "tenants.yaml").write_text(yaml.safe_dump(tiers))
    line.promote(line.adapter(1))
    member = person()
    before = left(member)
    assert member.send(f"lines/{LINE}/try", prompt=ASKED).status_code == 200
    # The trial's two, the page with its form's token, and the page that says what is left.
    assert left(member) == before - 4
    # The script's two, each after a page with its form's token.
    both(member, f"lines/{LINE}")
    assert left(member) == before - 9
    later = datetime.now(UTC) + timedelta(minutes=2)
    served.state.context.outcomes.log.flush(later)
    assert list(read_outcomes(line.store, LINE, "2020-01-01", later.isoformat())) == []


def shown(adapter: Artifact) -> str:
    """What the pages call an adapter."""
    return adapter.address.fingerprint[:12]


def left(person: Someone) -> int:
    """Requests that are left of this minute's."""
    return int(person.get("usage").headers["x-ratelimit-remaining-requests"])


def started(project: Project, person: Someone) -> str:
    """The page of a job of acme whose file was looked at."""
    return f"jobs/{person.start(person.upload(project.dataset()), 'colours')}"


def submission_of(project: Project, path: str) -> Submission:
    state = api.job_state("acme", path.removeprefix("jobs/ftjob-"), store=project.store)
    assert state.settled is not None
    found = find_submission(project.store, "acme", state.settled.submission)
    assert found is not None
    return found
