"""Files of this machine are sent to the server, which keeps no copy of its own but what becomes of them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI

from ft_assets import api
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.submissions import SubmissionStatus, find_outcome, finish, open_submissions
from ft_assets.remote import client
from ft_assets.server.long_calls import LongCalls
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadBase
from ft_resources.hub import HuggingFaceHub
from tests.cli.conftest import DATASET, RECIPE
from tests.e2e.project import Project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster


@pytest.fixture
def own(project: Project, pair: tuple[str, str]) -> Callable[..., Path]:
    """Writes a recipe of acme's own, on the base of the shared one."""
    stored = get_recipe(project.store, RECIPE)

    def write(key: str = "acme.own.v1", **changes: object) -> Path:
        path = project.recipe(key)
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "base": stored.lock.source, **changes}))
        return path

    return write


def test_a_folder_is_added_as_one_version_and_its_uploads_are_removed(
    far: Far, project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    (folder / "more").mkdir(parents=True)
    rows = project.dataset().read_text().splitlines(keepends=True)
    (folder / "part.jsonl").write_text("".join(rows[:80]))
    (folder / "more" / "part.jsonl").write_text("".join(rows[80:]))
    (folder / "picture.png").write_bytes(b"\x89PNG")
    policy = tmp_path / "dataset.yaml"
    policy.write_text("duplicates: {near: off}\n")
    added = far("dataset", "add", folder, "--name", "colours", "--policy", policy)
    assert (added.exit_code, added.stdout) == (0, "acme.colours.v1\n"), added.stderr
    assert "left out 1 file that cannot be read as rows: picture.png" in added.stderr
    raw = Artifacts(project.store).get(api.find_target("acme.colours.v1", store=project.store))
    assert raw.facts["rows"] == 160
    assert raw.manifest.actor.startswith("bea (key ")
    assert list(api.file_ids("acme", store=project.store)) == []


def test_a_call_that_takes_long_is_asked_for_until_it_has_ended_and_noted_once(
    far: Far, served: FastAPI, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = LongCalls(wait_s=0.02)
    served.state.context = replace(served.state.context, long_calls=calls)
    asked, goes_on = [], threading.Event()

    def add(*_: object, **given: object) -> object:
        asked.append(given["name"])
        assert goes_on.wait(600)
        return added(*_, **given)

    added, run = api.add_dataset, calls.run

    def count(*given: object) -> object:
        asked.append("asked")
        if len(asked) > 4:
            goes_on.set()
        return run(*given)

    monkeypatch.setattr("ft_assets.api.datasets.add_dataset", wraps(added)(add))
    monkeypatch.setattr(calls, "run", count)
    assert far("dataset", "add", project.dataset(), "--name", "colours").stdout == "acme.colours.v1\n"
    assert asked.count("acme.colours") == 1
    assert asked.count("asked") > 3
    assert far("audit").stdout.count("/v1/ft/calls/add_dataset") == 1


def test_what_is_wrong_with_a_file_is_told_by_its_own_name(far: Far, project: Project, tmp_path: Path) -> None:
    bad = tmp_path / "bad rows.jsonl"
    bad.write_text('{"messages": 3}\n')
    refused = far("dataset", "add", bad, "--name", "acme.bad")
    assert refused.exit_code == 2
    assert "  where: bad rows.jsonl, row 1" in refused.stderr
    assert list(api.file_ids("acme", store=project.store)) == []
    missing = far("dataset", "add", tmp_path / "none.jsonl", "--name", "acme.bad")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    long = far("dataset", "add", project.dataset(), "--name", "x" * 400)
    assert (long.exit_code, long.stderr.startswith("Error: name must have at most 300 letters")) == (2, True)
    foreign = far("dataset", "add", project.dataset(), "--name", "globex.rows")
    assert (foreign.exit_code, "a dataset is named after its tenant" in foreign.stderr) == (2, True)


def test_a_split_of_the_hub_is_refused_with_how_its_rows_come_and_leaves_no_upload(far: Far, project: Project) -> None:
    split, named = "hub:org/rows@main#train", ("--name", "acme.rows")
    for command in (
        ("dataset", "add", split, *named),
        ("dataset", "add", project.dataset(), split, *named),
        ("dataset", "add", project.dataset(), *named, "--holdout", split),
        ("submit", split, RECIPE, *named),
        ("run", split, "--base", "hub:org/base@main"),
    ):
        refused = far(*command)
        assert (refused.exit_code, refused.stderr) == (
            2,
            "Error: a split of the Hub is not read over the server's API\n"
            f"  where: {split}\n"
            "  what to do: Download it and add its files, or name it as `source` in a dataset.yaml: ft dataset watch\n",
        ), command
    assert list(api.file_ids("acme", store=project.store)) == []
    assert api.list_datasets(tenant="acme", store=project.store) == []


def test_a_recipe_is_registered_with_the_template_beside_it(far: Far, project: Project, own: Callable) -> None:
    (project.folder / "talk.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    file = own(chat_template="talk.jinja")
    done = far("recipe", "add", file)
    assert (done.exit_code, done.stdout) == (0, "acme.own.v1\n"), done.stderr
    assert "nothing was added" in far("recipe", "add", file).stderr
    stored = get_recipe(project.store, "acme.own.v1")
    assert stored.recipe.chat_template.startswith("{% for m in messages %}")
    assert "acme.own.v1" in far("recipe", "list").stdout
    assert "lock.source" in far("recipe", "show", "own.v1").stdout
    assert far("recipe", "retire", "acme.own.v1", "--note", "older").stdout.startswith("acme.own.v1: retired by bea")
    assert "acme.own.v1" not in far("recipe", "list").stdout
    assert far("recipe", "restore", "acme.own.v1", "--note", "needed").exit_code == 0
    shared = far("recipe", "retire", RECIPE, "--note", "x")
    assert (shared.exit_code, "there is no recipe" in shared.stderr) == (2, True)


BEYOND: list[tuple[dict[str, object], str]] = [
    ({"base": "folder:/etc"}, "a folder cannot be sent to the server"),
    ({"base": "folder:./base"}, "a folder cannot be sent to the server"),
    ({"key": "globex.own.v1"}, "globex.own.v1 is not a recipe of acme"),
    ({"key": "own.v1"}, "own.v1 is not a recipe of acme"),
    ({"chat_template": "/etc/hostname"}, "this file is not in the recipe's folder"),
    ({"chat_template": "../none.jinja"}, "this file is not in the recipe's folder"),
    ({"trainingg": {}}, "trainingg"),
]


def test_a_recipe_that_reaches_beyond_what_was_sent_is_refused(far: Far, project: Project, own: Callable) -> None:
    for changes, said in BEYOND:
        file = own(**changes)
        for command in (("recipe", "add", file), ("submit", DATASET, file), ("estimate", DATASET, file)):
            refused = far(*command)
            assert (refused.exit_code, said in refused.stderr) == (2, True), (command, changes, refused.output)
            assert "ft-call-" not in refused.stderr
    assert not api.has_recipe("acme.own.v1", store=project.store)
    assert not api.has_recipe("globex.own.v1", store=project.store)


def test_a_folder_of_the_server_is_no_base_of_a_first_try(far: Far, project: Project) -> None:
    for base in (str(project.folder / "base"), f"folder:{project.folder / 'base'}", "."):
        refused = far("submit", project.dataset(), "--base", base)
        assert (refused.exit_code, "a folder cannot be sent to the server" in refused.stderr) == (2, True)
    assert list(open_submissions(project.store)) == []


def test_the_hub_is_read_as_nobody(far: Far, project: Project, own: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = []

    def snapshot(hub: HuggingFaceHub, *_: object) -> None:
        tokens.append(hub.token)
        raise BadBase("there is no such model")

    monkeypatch.setattr(HuggingFaceHub, "snapshot", snapshot)
    file = own(base="hub:platform/private@main")
    for command in (
        ("recipe", "add", file),
        ("submit", DATASET, file),
        ("submit", project.dataset(), "--base", "hub:platform/private@main"),
    ):
        assert "there is no such model" in far(*command).stderr
    assert tokens == [False] * 3


def test_a_file_and_a_recipes_file_become_a_submission_of_the_tenant(far: Far, project: Project, own: Callable) -> None:
    estimated = far("estimate", DATASET, own())
    assert (estimated.exit_code, "optimizer steps" in estimated.stdout) == (0, True), estimated.stderr
    done = far("submit", project.dataset(170, "new.jsonl"), own(), "--name", "colours", "--key", "one")
    assert done.exit_code == 0, done.stderr
    (submission,) = open_submissions(project.store)
    assert done.stdout == f"{submission.id}\n"
    assert (submission.dataset, submission.recipe) == ("acme.colours.v2", "acme.own.v1")
    assert (submission.origin, submission.driver) == ("cli", "sensor")
    assert submission.actor.startswith("bea (key ")


@pytest.mark.parametrize(
    ("status", "code"), [(SubmissionStatus.ACCEPTED, 0), (SubmissionStatus.REJECTED, 3), (SubmissionStatus.FAILED, 1)]
)
def test_a_run_waits_for_the_servers_own_work_and_ends_with_its_exit_code(
    far: Far, project: Project, made: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch, status: str, code: int
) -> None:
    monkeypatch.setattr("ft_assets.api.gates.judge_candidate", lambda *_: [])

    def ends(_: float) -> None:
        (submission,) = open_submissions(project.store)
        finish(project.store, submission, status, adapter=str(made["adapter"].address), reason="because")

    monkeypatch.setattr(client, "sleep", ends)
    result = far("run", DATASET, RECIPE)
    assert result.exit_code == code, result.output
    assert str(status) in result.stdout


def test_ctrl_c_of_a_run_cancels_it_at_the_server(
    far: Far, project: Project, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def interrupt(_: float) -> None:
        found.extend(open_submissions(project.store))
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "sleep", interrupt)
    assert far("run", *pair).exit_code == 130
    outcome = find_outcome(project.store, found[0])
    assert outcome is not None
    assert outcome.reason.startswith("cancelled by bea (key ")


def test_a_run_that_is_paused_at_the_server_ends_with_its_own_exit_code(
    far: Far, project: Project, pair: tuple[str, str]
) -> None:
    submission = far("submit", *pair).stdout.strip()
    assert far("pause", submission, "--reason", "later").exit_code == 0
    assert far("run", *pair).exit_code == 5
    assert find_outcome(project.store, next(open_submissions(project.store))) is None
