"""The console in a real browser: the main way, each refusal, and every page for people with weak eyes or a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ft_assets import api
from ft_assets.api import sign_in
from ft_assets.control.lines.proposals import propose
from tests.server.chat_world import Line
from tests.server.console.browsing import WIDTHS, Browser
from tests.server.console.world import World
from tests.server.identity_provider import CLIENT, SECRET, identity_provider
from tests.server.scripted_server import Scripted
from tests.workers.datasets.reporting.browser import chromium, too_wide
from tests.workers.serving.world import BASE

pytestmark = [
    pytest.mark.browser,
]


# Widths tell nothing of colours, nor these of widths.
LOOKS = [
    pytest.param(window, dark, id=f"{window}-{name}", marks=[pytest.mark.long] if dark != (window == "phone") else [])
    for window in WIDTHS
    for dark, name in ((False, "light"), (True, "dark"))
]


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with chromium() as driver:
        driver.set_script_timeout(60)
        yield Browser(driver, world.url)


@pytest.fixture(autouse=True)
def usual(browser: Browser) -> None:
    browser.looks()
    browser.errors()


def start_a_job(browser: Browser, file: Path, name: str) -> str:
    """Upload, wizard, start; the job's id."""
    browser.open("files")
    browser.choose(file)
    browser.sees("rows can be used", "#look")
    browser.press("Upload")
    browser.sees("Columns of the file")
    browser.press("Next: base")
    browser.press("Next: method")
    browser.press("Next: recipe")
    browser.type("#name", name)
    browser.type("#n_epochs", "2")
    browser.press("Next: estimate")
    browser.sees("Training time")
    browser.press("Start")
    browser.sees("queued")
    return browser.driver.current_url.rpartition("/")[2]


def test_the_main_way_from_signing_in_to_the_verdict_and_production(world: World, browser: Browser) -> None:
    browser.sign_in(world.key(role="promoter"))
    browser.sees("No jobs yet")
    browser.open("files")
    browser.choose(world.project.dataset())
    browser.sees("The 160 rows can be used", "#look")
    browser.sees("what colour is thing 0?", "#look")
    job = start_a_job(browser, world.project.dataset(), "colours")
    training = world.training(job)
    training.prepare()
    training.train(10)
    # Nobody loads the page again: it changes by itself.
    browser.sees("Step 10 of 40")
    browser.sees("Step 10: training loss", ".log")
    first = browser.find(".curve .train").get_attribute("points")
    training.train(30)
    browser.sees("Step 30 of 40")
    assert len(browser.find(".curve .train").get_attribute("points")) > len(first)
    training.evaluate()
    browser.sees("General abilities")
    training.accept()
    browser.sees("The adapter is ready")
    browser.sees("The job has successfully completed", ".log")
    browser.press("candidate and base")
    browser.sees("what colour is thing 80?")
    browser.sees("candidate, correct")
    browser.open("lines/acme.colours." + training.submission.recipe.split(".")[-2])
    browser.sees("No decisions yet")
    browser.type("#promote-reason", "better on every colour")
    browser.press("Promote")
    browser.sees("better on every colour")
    assert "promotion to dev" in browser.text()
    assert browser.errors() == []


def test_a_rejected_candidate_is_told_with_its_gates_and_what_to_try(world: World, browser: Browser) -> None:
    browser.sign_in(world.key())
    job = start_a_job(browser, world.project.dataset(rows=200, name="weak.jsonl"), "weak")
    training = world.training(job)
    training.prepare()
    training.evaluate(good=False)
    training.reject()
    browser.sees("The candidate did not pass its gates")
    browser.sees("What to try")
    # Of the job, and of the gate that did not let it through.
    assert [browser.text(place) for place in (".pill.bad", "td .pill.bad")] == ["failed", "fail"]


def test_a_bad_file_is_told_row_by_row_before_it_is_uploaded(world: World, browser: Browser, tmp_path: Path) -> None:
    browser.sign_in(world.key("badrows"))
    rows = world.project.dataset().read_text().splitlines()
    rows[3] = '{"messages": "none"}'
    rows[7] = '{"messages": [{"role": "user", "content": "a"}'
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(rows) + "\n")
    browser.open("files")
    browser.choose(bad)
    browser.sees("2 of the 160 rows cannot be used", "#look")
    shown = browser.text("#look")
    assert "1 row messages this should be a non-empty list of turns 4" in shown
    assert "1 row the row is not valid JSON" in shown
    assert "No files yet" in browser.text()


def test_the_columns_of_a_large_table_are_chosen_by_clicking(world: World, browser: Browser, tmp_path: Path) -> None:
    browser.sign_in(world.key("clicker"))
    large = tmp_path / "large.csv"
    rows = "".join(f"What is {number}?,It is {'x' * 60} {number}.,{number}\n" for number in range(6000))
    large.write_text(f"aa,bb,cc\n{rows}")
    browser.open("files")
    browser.choose(large)
    browser.sees("as far as its beginning shows", "#look")
    browser.press("Upload")
    browser.sees("Columns of the file")
    for column, use in enumerate(("prompt", "", "completion")):
        Select(browser.find(f"#c{column}")).select_by_value(use)
    browser.sees("large.csv holds chat data")
    browser.sees("What is 0?", ".examples")
    browser.press("Next: base")
    for step in ("Next: method", "Next: recipe"):
        browser.press(step)
    browser.type("#name", "large")
    browser.press("Next: estimate")
    browser.press("Start")
    browser.sees("queued")
    dataset = api.list_datasets(tenant="clicker", store=world.project.store)
    assert [str(each.key) for each in dataset] == ["clicker.large.v1"]
    assert browser.errors() == []


def test_a_file_that_is_something_else_is_refused_at_its_choice_and_at_its_upload(
    world: World, browser: Browser, tmp_path: Path
) -> None:
    browser.sign_in(world.key("zips"))
    other = tmp_path / "rows.jsonl"
    other.write_bytes(b"PK\x03\x04" + b"x" * 1000)
    browser.open("files")
    browser.choose(other)
    browser.sees("This is a ZIP file, not JSON lines", "#look")
    browser.press("Upload")
    browser.sees("This is a ZIP file, not JSON lines", "#look")
    browser.open("files")
    browser.sees("No files yet")


def test_a_wrong_key_opens_nothing(world: World, browser: Browser) -> None:
    browser.sign_in("ft-wrong")
    browser.sees("The API key is unknown")
    browser.open("jobs")
    browser.sees("Sign in")


def test_a_viewer_sees_and_may_not_start(world: World, browser: Browser) -> None:
    browser.sign_in(world.key("lookers", "viewer"))
    browser.sees("Your role can view jobs but not start them")
    browser.open("new")
    browser.sees("This requires the role member")


@pytest.fixture(scope="module")
def answering() -> Iterator[Scripted]:
    engine = Scripted(["That is a **billing** question.\n", "I have passed it on to the team that sends invoices."])
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def tried(world: World, answering: Scripted) -> str:
    """A line with an adapter in production, and a server that answers for it and its base."""
    line = Line(world.project, "furnished.tickets.tiny")
    line.promote(line.adapter(1))
    world.fleet.base = line.base.digest
    world.fleet.add(answering.url)
    return f"lines/{line.line}"


def test_a_prompt_is_answered_by_the_model_and_its_base_side_by_side(
    world: World, browser: Browser, tried: str
) -> None:
    browser.sign_in(world.key("furnished", "viewer"))
    browser.open(tried)
    browser.type("#try-prompt", "My invoice of May is wrong.")
    browser.press("Ask both")
    browser.sees("That is a **billing** question.", "#try-answers [data-of=model]")
    browser.sees("billing", "#try-answers [data-of=base]")
    browser.sees("2 tokens, cut off there", "#try-answers [data-of=model]")
    # By the keyboard alone, again.
    browser.type("#try-prompt", " And that of June" + Keys.CONTROL + Keys.ENTER)
    browser.sees("My invoice of May is wrong. And that of June", "#try-answers")
    assert browser.errors() == []


def test_the_models_answer_does_not_wait_for_its_bases_which_can_be_stopped(
    world: World, browser: Browser, tried: str, answering: Scripted
) -> None:
    browser.sign_in(world.key("furnished", "viewer"))
    browser.open(tried)
    answering.hanging.add(BASE)
    browser.type("#try-prompt", "My invoice of May is wrong.")
    browser.press("Ask both")
    browser.sees("I have passed it on", "#try-answers [data-of=model]")
    assert browser.text("#try-answers [data-of=base]").strip() in ("base", "base\n…", "base\n …")
    browser.press("Stop")
    browser.sees("Ask both")
    answering.hanging.clear()
    browser.press("Ask both")
    browser.sees("billing", "#try-answers [data-of=base]")
    assert browser.errors() == []


@pytest.fixture(scope="module")
def furnished(world: World, tried: str) -> dict[str, str]:
    """Every page of a tenant with something on it, by name."""
    person = world.person("furnished", "admin")
    file = person.upload(world.project.dataset(rows=180, name="furnished.jsonl"))
    done, under_way = person.start(file, "done"), ""
    training = world.training(done, "furnished")
    training.prepare()
    training.evaluate()
    adapter = training.accept()
    line = "furnished.done." + training.submission.recipe.split(".")[-2]
    sent = person.send(f"lines/{line}/promote", adapter=str(adapter.address), stage="dev", reason="a look at it")
    assert sent.status_code == 303, sent.text
    # It waits for a second person too.
    (decided,) = api.show_line(line, store=world.project.store).records
    propose(world.project.store, decided, made_by="", waive_incumbent=False)
    other = person.upload(world.project.dataset(rows=220, name="other.jsonl"))
    under_way = person.start(other, "under-way")
    at_work = world.training(under_way, "furnished")
    at_work.prepare()
    at_work.train(20)
    held = person.upload(world.project.dataset(rows=240, name="held.jsonl"))
    waiting = person.start(held, "held")
    world.training(waiting, "furnished").curate(held=("A third of the rows hold names of people.",))
    rejected = person.start(person.upload(world.project.dataset(rows=260, name="weak.jsonl")), "weak")
    failed = world.training(rejected, "furnished")
    failed.prepare()
    failed.evaluate(good=False)
    failed.reject()
    votes = "".join(f"Is it {n}?,It is {n}.,{'up' if n % 2 else 'maybe' if n < 24 else 'down'}\n" for n in range(150))
    table = world.project.folder / "votes.csv"
    table.write_text(f"question,answer,vote\n{votes}")
    voted = person.upload(table)
    talks = world.project.folder / "talks.jsonl"
    said = '{"talk": [{"who": "customer", "said": "Hi %d"}, {"who": "agent", "said": "Hello %d"}]}\n'
    talks.write_text("".join(said % (n, n) for n in range(150)))
    return {
        "jobs": "jobs",
        "choose a file": "new",
        "columns": f"new/rows?file={voted}",
        "turns": f"new/rows?file={person.upload(talks)}",
        "job under way": f"jobs/{under_way}",
        "job done": f"jobs/{done}",
        "job rejected": f"jobs/{rejected}",
        "job held": f"jobs/{waiting}",
        "answers": f"jobs/{done}/answers",
        "files": "files",
        "base": f"new?file={other}",
        "method": f"new?file={other}&base=tiny",
        "recipe": f"new?file={other}&base=tiny&method=sft",
        "datasets": "datasets",
        "dataset": "datasets/furnished.done.v1",
        "dataset held": "datasets/furnished.held.v1",
        "adapters": "adapters",
        "lines": "lines",
        "line": f"lines/{line}",
        "line that can be tried": tried,
        "usage": "usage",
        "notices": "notices",
        "keys": "keys",
        "error": "datasets/furnished.nothing.v1",
    }


@pytest.mark.parametrize(("window", "dark"), LOOKS)
def test_every_page_is_accessible_and_fits(
    world: World, browser: Browser, furnished: dict[str, str], window: str, dark: bool
) -> None:
    width = WIDTHS[window]
    browser.looks(width=width, dark=dark)
    browser.driver.delete_all_cookies()
    browser.open("sign-in")
    wrong = {"sign-in": browser.violations() + too_wide(browser.driver, width)}
    browser.sign_in(world.key("furnished", "admin"))
    browser.sees("Jobs")
    for name, path in furnished.items():
        browser.open(path)
        wrong[name] = browser.violations() + too_wide(browser.driver, width)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.fixture
def two_tenants(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A provider that signs somebody in who belongs to two tenants."""
    sign_in._provider.cache_clear()
    monkeypatch.setenv("FT_PUBLIC_URL", world.url)
    monkeypatch.setenv("FT_OIDC_CLIENT_SECRET", SECRET)
    file = world.project.folder / "tenants.yaml"
    before = file.read_text()
    with identity_provider() as provider:
        provider.claims = {"sub": "7", "email": "ann@acme.test", "email_verified": True, "groups": ["a", "f"]}
        members = [{"group": "a", "tenant": "acme"}, {"group": "f", "tenant": "furnished"}]
        section = {"client_id": CLIENT, "name": "Example Ltd", "members": members, "issuer": provider.url}
        file.write_text(yaml.safe_dump({"sign_in": section}))
        yield
    file.write_text(before)


@pytest.mark.parametrize(("window", "dark"), LOOKS)
def test_every_page_that_answers_a_form_is_accessible_and_fits(
    world: World, browser: Browser, furnished: dict[str, str], two_tenants: None, window: str, dark: bool
) -> None:
    width = WIDTHS[window]
    browser.looks(width=width, dark=dark)
    browser.driver.delete_all_cookies()
    wrong = {}

    def look(name: str) -> None:
        wrong[name] = browser.violations() + too_wide(browser.driver, width)

    browser.open("sign-in")
    browser.press("Sign in with Example Ltd")
    browser.sees("Choose a tenant")
    look("choose a tenant")
    browser.press("furnished")
    browser.sees("Jobs")
    browser.sign_in(world.key("furnished", "admin"))
    browser.open("keys")
    browser.type("#name", "a script at night")
    browser.press("Create key")
    browser.sees("Key a script at night created")
    look("new key")
    browser.open(furnished["line that can be tried"])
    browser.find("summary").click()
    browser.type("#try-prompt", "My invoice of May is wrong.")
    browser.press("Ask both")
    browser.sees("billing", "#try-answers")
    look("tried")
    browser.open(furnished["recipe"])
    browser.type("#name", "estimated")
    browser.press("Next: estimate")
    browser.sees("Nothing is running yet")
    browser.find("summary").click()
    look("estimate")
    assert {name: found for name, found in wrong.items() if found} == {}
