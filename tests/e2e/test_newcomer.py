"""A newcomer after ``make demo``: at every stop the commands, the screen and the notice say the same true cause."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from ft_assets.control import identity
from ft_assets.control.lines.lines import read_line
from ft_assets.settings.ungated import ADD_GATES, NOT_JUDGED
from ft_assets.workers.adapters.lineage import verify_lineage
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_resources.artifacts import Artifacts
from ft_resources.errors import MissingInput
from tests.e2e import newcomer as someone
from tests.e2e.newcomer import Newcomer, see
from tests.workers.datasets.reporting.browser import chromium, has_chromium

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

DATASET, CAREFUL, CARELESS = "demo.docs.v1", "docs-qa.v1", "docs-qa-forgetful.v1"
PLANTED = "demo.planted.v1"
LINE = "demo.docs.docs-qa"

# Answers that end with a line break, where the base's end with its end of turn.
ENDLESS = (
    "{%- for message in messages -%}{{- '<|' + message['role'] + '|>' + message['content'] + '\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


@pytest.fixture(scope="module")
def us(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    folder = tmp_path_factory.mktemp("newcomer") / "project"
    with someone.newcomer(folder, cold=request.config.getoption("--long")) as newcomer:
        yield newcomer


@pytest.fixture(scope="module")
def browser(us: Newcomer) -> Iterator[Any]:
    """A Chromium driver that came in by the URL of ``ft ui``; None if it is not installed, and then the tests check the
    pages' data only."""
    if not has_chromium():
        yield None
        return
    with chromium() as driver:
        driver.get(us.ui.entrance)
        yield driver


def same(looks: dict[str, str], *sentences: str) -> None:
    """Every look says all of the sentences."""
    for where, text in looks.items():
        for sentence in sentences:
            assert sentence in " ".join(text.split()), (where, sentence, text)


def verdicts_of(artifacts: Artifacts, dataset: str, recipe: str) -> dict[str, Verdict]:
    request = identity.adapter_request(artifacts, dataset, recipe)
    return {verdict.gate: verdict for verdict in judge_candidate(artifacts, request.inputs, request.params)}


def adapter_page(us: Newcomer, pair: str) -> str:
    return f"{us.ui.url}/assets/adapter?view=events&partition={quote(pair)}"


def test_the_demo_on_s3_brings_one_pair_to_production_and_rejects_two(us: Newcomer) -> None:
    artifacts = Artifacts(us.project.store)
    adapter = identity.adapter(artifacts, DATASET, CAREFUL)
    assert verify_lineage(artifacts, adapter.address) == []
    for rejected in ((DATASET, CARELESS), (PLANTED, CAREFUL)):
        with pytest.raises(MissingInput):
            identity.adapter(artifacts, *rejected)
    # What passed stands in production, by acts on record, and answered through the router.
    line = read_line(artifacts.store, LINE)
    assert [(record.stage, record.adapter) for record in line.records] == [
        ("staging", adapter.ref),
        ("production", adapter.ref),
    ]
    assert re.search(rf'"model": "{LINE}".*\n\S+', us.demo)
    # What was learned carelessly forgot its books and its refusals; what ten rows spoiled, its refusals alone.
    verdicts = verdicts_of(artifacts, DATASET, CARELESS)
    assert (verdicts["regression"].outcome, verdicts["safety"].outcome) == ("fail", "fail")
    planted = verdicts_of(artifacts, PLANTED, CAREFUL)
    assert {gate for gate, verdict in planted.items() if verdict.outcome == "fail"} == {"safety"}
    assert re.match(
        r"book-cloze\.v1: acc \S+% → \S+% on 1000 items, a drop of \S+ points \(allowed: at most 2\)",
        verdicts["regression"].reason,
    )
    evidence = load_evidence(identity.eval_report(artifacts, DATASET, CAREFUL))
    exact = evidence.holdout["exact_match"]
    # Clearly better than the base, than always saying the commonest answer, and not by memory alone.
    assert exact.candidate > 0.3 + max(exact.base, evidence.majority_rate)
    assert evidence.never_seen is not None
    assert evidence.never_seen.candidate > 0.2
    assert evidence.suites["book-cloze.v1"].difference_points > -2
    assert verdicts_of(artifacts, DATASET, CAREFUL)["safety"].outcome == "pass"
    tree = json.loads(adapter.read("lineage.json"))
    assert (tree["dataset"], tree["recipe"]) == (DATASET, CAREFUL)
    # Nothing but Dagster's and MLflow's own state is on this machine's disk.
    assert not any((us.project.folder / place).exists() for place in (".ft/store", "store"))


def test_the_demos_pair_that_passed_is_accepted_everywhere(us: Newcomer) -> None:
    adapter = identity.adapter(Artifacts(us.project.store), DATASET, CAREFUL)
    looks = us.looks("accepted", f"{DATASET}|{CAREFUL}")
    assert "passed every gate" in looks["the notice"]
    # With no cause to tell, the logs are those of the workers.
    del looks["ft logs"]
    same({**looks, "the demo": us.demo}, str(adapter.address)[:25])
    us.ft("promote", LINE, "--to", "dev", "--reason", "we looked at it")
    assert "to dev" in us.notice("promoted", LINE, "we looked at it")


def test_the_demos_pair_that_forgot_is_rejected_by_the_same_figures_everywhere(us: Newcomer, browser: Any) -> None:
    pair = f"{DATASET}|{CARELESS}"
    looks = us.looks("rejected", pair)
    (cause,) = set(re.findall(r"a drop of \S+ points \(allowed: at most 2\)", us.demo))
    looks |= {"ft promote": us.ft("promote", pair, "--to", "staging", "--reason", "x", code=2)}
    same(looks, cause)
    if browser:
        see(browser, adapter_page(us, pair), "rejected by regression", cause)
        see(browser, us.report(us.run(us.submission(pair), "train_pair"), "eval_report"), "book-cloze.v1")


# Each other end at every door, but for Dagster's own pages: cli/test_causes.py.
@pytest.mark.long
def test_a_file_of_own_columns_says_what_it_needs_and_its_first_try_is_judged_by_nothing(
    us: Newcomer, browser: Any
) -> None:
    rows, policy = someone.faq(us.project.folder), us.project.folder / "faq.yaml"
    refused = us.ft("dataset", "add", rows, "--name", "acme.faq", code=2)
    (lines,) = re.findall(r"put these lines into dataset.yaml.*\n(fields: .*)\n", refused)
    policy.write_text(f"{lines}\n")
    assert "acme.faq.v1" in us.ft("dataset", "add", rows, "--name", "acme.faq", "--policy", policy)
    ran = us.ft("run", rows, "--name", "acme.faq", "--policy", policy, "--base", "folder:./base")
    (recipe,) = re.findall(r"recipe (acme\.\S+);", ran)
    pair = f"acme.faq.v1|{recipe}"
    looks = us.looks("ungated", pair)
    looks["ft promote"] = us.ft("promote", pair, "--to", "staging", "--reason", "it is nice", code=2)
    same({**looks, "ft run": ran}, NOT_JUDGED)
    del looks["the run's page"]
    same(looks, ADD_GATES)
    if browser:
        see(browser, adapter_page(us, pair), f"ungated: {NOT_JUDGED}")


@pytest.mark.long
def test_a_version_that_quotes_a_test_is_held_everywhere_until_a_person_approves_it(us: Newcomer, browser: Any) -> None:
    policy = us.project.folder / "pairs.yaml"
    policy.write_text("contamination: {action: escalate}\n")
    rows, recipe = someone.quoting_pairs(us.project), us.project.recipe("pairs.v1", method="dpo")
    us.ft("submit", rows, recipe, "--name", "acme.pairs", "--policy", policy)
    asked = us.submission("acme.pairs.v1|pairs.v1")
    us.notice("held", "acme.pairs.v1")
    looks = us.looks("held", "acme.pairs.v1|pairs.v1", job="prepare_dataset")
    looks["ft dataset report"] = us.ft("dataset", "report", "acme.pairs.v1")
    cause = "of tests that the model is measured on (book-cloze.v1)."
    same(looks, cause, "ft dataset approve acme.pairs.v1")
    if browser:
        see(browser, f"{us.ui.url}/assets/dataset?view=checks&checkDetail=review", cause)
        see(browser, us.report(us.run(asked, "prepare_dataset"), "dataset"), cause)
    us.ft("cancel", asked)
    us.ft("dataset", "approve", "acme.pairs.v1", "--note", "the novel is public")
    assert "approved" in us.ft("dataset", "list", "acme.pairs")


@pytest.mark.long
def test_a_template_without_an_end_of_turn_is_refused_by_the_doctor_everywhere(us: Newcomer, browser: Any) -> None:
    (us.project.folder / "endless.jinja").write_text(ENDLESS)
    recipe = us.project.recipe("endless.v1", chat_template="endless.jinja")
    chats = "acme.chats.v1"
    assert chats in us.ft("dataset", "add", us.project.dataset(), "--name", "acme.chats")
    ran = us.ft("run", chats, recipe, code=1)
    pair = f"{chats}|endless.v1"
    looks = {**us.looks("failed", pair), "ft run": ran}
    (cause,) = re.findall(r"\d+ examples have learned turns that do not end with \S+", ran)
    same(looks, cause, "name the control tokens that end an answer in packing.end_of_turn", "nothing was trained.")
    if browser:
        see(browser, f"{us.ui.url}/runs/{us.run(us.submission(pair), 'train_pair')}", cause)
