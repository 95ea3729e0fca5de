"""Versions that a source gave by itself: curated, held and paid for as uploaded ones are."""

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ft_assets.api import watched_datasets
from ft_assets.control.identity.review import approve
from ft_assets.control.submissions.status import State, status_of
from ft_assets.records.submissions import open_submissions
from ft_resources.artifacts import Artifact, Artifacts
from tests.e2e.project import Project
from tests.sensors import test_retraining, test_submissions
from tests.sensors.conftest import register
from tests.sensors.test_sources import FILES, IDLE, lake, pulled, tick, versions, watch, write  # noqa: F401
from tests.workers.datasets.conftest import SIDES, report_of, run_curation, told

pytestmark = pytest.mark.dagster

V1, V2 = "acme.tickets.v1", "acme.tickets.v2"
TINY = "tiny.v1"


@pytest.fixture
def tickets(project: Project) -> Path:
    """The folder that the source reads, with 120 rows."""
    return project.folder / "lake" / "tickets"


@pytest.fixture
def subscribed(project: Project) -> Project:
    """acme's tickets are watched, and retrained with a recipe for one H100."""
    register(project, TINY, hardware={"gpus": 1, "gpu_type": "H100"})
    changed(project, subscriptions=[{"dataset": "tickets", "recipe": TINY}])
    return project


def changed(project: Project, *, platform: dict[str, Any] | None = None, **settings: Any) -> None:
    """Change the settings of acme, and of the platform, in the tenants file."""
    file = project.folder / "tenants.yaml"
    found = json.loads(file.read_text())
    found["tenants"]["acme"] |= settings
    file.write_text(json.dumps(found | (platform or {})))


def test_a_pulled_version_that_is_held_waits_for_a_person_and_is_then_trained_on(
    subscribed, instance, tickets, tmp_path
) -> None:
    artifacts = Artifacts(subscribed.store)
    rows = [told(number) for number in range(120)]
    rows[7]["prompt"] += " Write to maria.lopez@kliniken-nord.de about it."
    (tickets / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    watch(subscribed, policy=f"{FILES}personal_data: {{action: escalate}}\n")
    assert pulled(instance, subscribed).success
    assert test_retraining.tick(instance, subscribed) == "checked 1 subscribed lines: 1 submitted"
    (asked,) = open_submissions(subscribed.store)
    assert report_of(run_curation(artifacts, V1, tmp_path)).held
    assert test_submissions.tick(instance, subscribed) == {}
    status = status_of(subscribed.store, asked)
    assert (status.state, "personal data" in status.detail) == (State.HELD, True), status.detail
    # The same rows do not come again meanwhile, and nobody reads them twice.
    assert tick(instance, subscribed) == IDLE

    approve(artifacts, V1, actor="ann", note="a made-up address")
    assert status_of(subscribed.store, asked).state is not State.HELD
    assert test_submissions.tick(instance, subscribed) == {"prepare_dataset": V1, "prepare_recipe": TINY}
    # A later version is curated and held by itself: an approval is of one version.
    rows[9]["prompt"] += " Write to jonas.weber@kliniken-nord.de about it."
    (tickets / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pulled(instance, subscribed).success
    assert report_of(run_curation(artifacts, V2, tmp_path)).held
    assert test_retraining.tick(instance, subscribed) == "checked 1 subscribed lines: 1 submitted"
    later = next(each for each in open_submissions(subscribed.store) if each.dataset == V2)
    assert status_of(subscribed.store, later).state is State.HELD


def test_a_source_with_more_rows_than_its_tenant_may_have_is_refused_once(project, instance, tickets) -> None:
    changed(project, platform={"tiers": {"default": {"max_examples": 100}}})
    watch(project)
    assert not pulled(instance, project).success
    (row,) = watched_datasets(store=project.store)
    assert row.last is not None
    assert "120 examples are more than the 100 that acme may have" in row.last.refused
    assert (versions(project), tick(instance, project)) == ([], IDLE)
    write(tickets, range(100))
    assert pulled(instance, project).success


def logged(number: int, reason: str = "stop", **message: Any) -> dict[str, Any]:
    """A request and its response, as a gateway in front of OpenAI's API writes them."""
    asked = told(number)
    answer = {"role": "assistant", "content": asked["completion"], "refusal": None, "annotations": [], **message}
    messages = [{"role": "system", "content": "Tell stories."}, {"role": "user", "content": asked["prompt"]}]
    return {
        "request": {"model": "gpt-5", "messages": messages, "temperature": 0.2},
        "response": {
            "id": f"chatcmpl-{number}",
            "choices": [{"index": 0, "message": answer, "finish_reason": reason}],
            "usage": {"total_tokens": 99},
        },
        "latency_ms": number,
    }


def _rows(made: Artifact, side: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(BytesIO(made.read(f"{side}.parquet"))).to_pylist()
    return found


def test_conversation_logs_become_versions_of_chats_day_by_day(project, instance, tickets, tmp_path) -> None:
    (tickets / "rows.jsonl").unlink()
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
    calls = [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    called = logged(500, "tool_calls", content=None, tool_calls=calls)
    called["request"]["tools"] = [tool]
    failed = {**logged(501), "response": {"error": {"message": "overloaded", "code": 503}}}
    first = [*(logged(number) for number in range(118)), called, failed, logged(502, "length")]

    def write_day(day: str, rows: list[dict[str, Any]]) -> None:
        (tickets / f"{day}.jsonl.gz").write_bytes(
            gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
        )

    write_day("2026-05-01", first)
    watch(project, policy=f"{FILES}on_bad_row: drop\nmax_dropped_share: 0.2\nfields: {{ignore: [latency_ms]}}\n")
    assert pulled(instance, project).success
    write_day("2026-05-02", [logged(number) for number in range(200, 210)])
    assert pulled(instance, project).success
    assert versions(project) == [V1, V2]
    made = run_curation(Artifacts(project.store), V2, tmp_path)
    report, rows = report_of(made), [row for side in SIDES for row in _rows(made, side)]
    assert (report.rows_read, report.examples, report.forms) == (131, 129, {"request/response": 129})
    told_of = {row["messages"][1]["content"]: row for row in rows}
    assert told_of.keys() == {told(number)["prompt"] for number in (*range(118), *range(200, 210), 500)}
    chat = told_of[told(7)["prompt"]]["messages"]
    assert [turn["role"] for turn in chat] == ["system", "user", "assistant"]
    assert chat[2]["content"] == told(7)["completion"]
    with_tool = told_of[told(500)["prompt"]]
    assert '"find"' in with_tool["tools"]
    assert '"find"' in with_tool["messages"][2]["tool_calls"]
    assert {str(note.place) for each in report.findings("read") for note in each.notes} == {
        "2026-05-01.jsonl.gz, row 120",
        "2026-05-01.jsonl.gz, row 121",
    }
