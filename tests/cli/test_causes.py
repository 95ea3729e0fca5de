"""However a pair ends, every door says the same cause, and all but Dagster's own page what to do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.api import RunState, Stage, Wanted
from ft_assets.control import identity
from ft_assets.control.notices.describe import describe
from ft_assets.control.submissions.admission import OverLimit
from ft_assets.control.submissions.status import get_submission
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.records.due_notices import markers, read_markers
from ft_assets.records.submissions import SubmissionStatus, find_outcome, finish, open_submissions
from ft_assets.settings import tags
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.store import Store
from ft_resources.work import WorkSpec
from tests.cli.conftest import DATASET, FACTS, RECIPE, Ft, publish
from tests.curated import LEAK, leave_dataset
from tests.dagster_private import create_run_for_test
from tests.e2e.project import Project
from tests.made import leave

pytestmark = pytest.mark.dagster

PACK = {"examples": 9, "learned_tokens": 3, "max_length": 8, "dropped": 0, "validation": {"examples": 1, "tokens": 8}}
LENGTHS = {"length_histogram": {"edges": [0, 8], "counts": [9]}}
CONFIG = {"config.json": b'{"vocab_size": 9, "model_type": "qwen2"}'}
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, kw_only=True)
class End:
    """How to bring an end about, and what every door says of it; ``told`` is what a notice says, where that is less."""

    make: Callable[[Store, Patch], None]
    code: int
    cause: str
    remedy: str
    blame: str = ""
    told: str = ""
    in_dagster: bool = True


def worker_ends(outcome: Outcome, error: dict[str, str], store: Store, patch: Patch) -> None:
    """Every worker ends at once, in these words."""

    def launch(self: LocalLauncher, spec: WorkSpec, attempt: Attempt) -> None:
        if outcome is Outcome.CANCELLED:
            (asked,) = open_submissions(store)
            finish(store, asked, SubmissionStatus.CANCELLED, reason="cancelled by ann")
        attempt.record_ending(outcome, error)

    patch.setattr(LocalLauncher, "launch", launch)
    patch.setitem(POLICIES, outcome, replace(POLICIES[outcome], backoff_s=0.0))


def held(store: Store, patch: Patch) -> None:
    """The curation holds what it leaves."""

    def launch(self: LocalLauncher, spec: WorkSpec, attempt: Attempt) -> None:
        leave_dataset(Artifacts(store), DATASET, [LEAK])
        attempt.record_ending(Outcome.DONE)

    patch.setattr(LocalLauncher, "launch", launch)


def prepared(store: Store, patch: Patch, pack: bool = False) -> None:
    artifacts = Artifacts(store)
    publish(artifacts, identity.dataset_request(artifacts, DATASET))
    leave(artifacts, identity.base_model_request(artifacts, RECIPE), CONFIG, FACTS["base_model"])
    publish(artifacts, identity.baseline_report_request(artifacts, RECIPE))
    if pack:
        facts = {**FACTS["token_pack"], **PACK, **LENGTHS}
        leave(
            artifacts, identity.token_pack_request(artifacts, DATASET, RECIPE), {"report/samples.html": b"<p>"}, facts
        )


def rejected(store: Store, patch: Patch) -> None:
    prepared(store, patch, pack=True)
    artifacts = Artifacts(store)
    publish(artifacts, identity.checkpoint_request(artifacts, DATASET, RECIPE))
    publish(artifacts, identity.eval_report_request(artifacts, DATASET, RECIPE))
    patch.setattr("ft_assets.graph.run._execute", lambda *_: RunState.FAILED)


def too_large(store: Store, patch: Patch) -> None:
    prepared(store, patch, pack=True)

    def refuse(*_: object) -> None:
        raise OverLimit("the model is too large", where=RECIPE, remedy="Name a larger GPU.")

    patch.setattr("ft_assets.graph.assets.packs.estimate_training", refuse)


def words(kind: str, what: str) -> dict[str, str]:
    return {"type": kind, "what": what, "where": "rows.jsonl, row 7", "remedy": "mend it"}


ENDS = {
    "rejected by the gates": End(
        make=rejected, code=3, cause="has no report.json", remedy=f"ft gate show {DATASET} {RECIPE}", in_dagster=False
    ),
    "held for review": End(make=held, code=4, cause=LEAK, remedy=f"ft dataset approve {DATASET}"),
    "refused by the doctor": End(
        make=partial(prepared, pack=True),
        code=1,
        cause="holdout is absent: the pack has no evidence of the doctor",
        remedy="Correct the dataset, the template or the packing settings; nothing was trained.",
        blame="user",
    ),
    "a mistake before training": End(
        make=too_large, code=1, cause=f"{RECIPE}: the model is too large", remedy="Name a larger GPU.", blame="user"
    ),
    "the worker's own error": End(
        make=partial(worker_ends, Outcome.DIVERGED, words("Diverged", "loss 1e9 at step 4")),
        code=1,
        cause="dataset: the worker diverged; lower the learning rate: loss 1e9 at step 4",
        remedy="mend it",
        blame="user",
    ),
    "the worker's own error that may quote a row": End(
        make=partial(worker_ends, Outcome.BAD_DATA, words("BadData", "Ann's secret is no number")),
        code=1,
        cause="Ann's secret is no number",
        remedy="mend it",
        blame="user",
        told="dataset: the worker found invalid data",
    ),
    "the platform's error": End(
        make=partial(worker_ends, Outcome.PLATFORM_ERROR, words("RuntimeError", "the disk hiccuped")),
        code=1,
        cause="the disk hiccuped",
        remedy="mend it",
        blame="platform",
        told="dataset: the worker failed because of the platform",
    ),
    "cancelled": End(
        make=partial(worker_ends, Outcome.CANCELLED, words("WorkFailed", "it was cancelled")),
        code=130,
        cause="cancelled",
        remedy=f"ft run {DATASET} {RECIPE}",
    ),
}


def notices(store: Store) -> str:
    found = [describe(store, due) for due in read_markers(store, markers(store), [])]
    return "\n".join(event.text() for event in found if event)


def failures_in_dagster(instance: dg.DagsterInstance) -> str:
    """Every failed step of every run, as its page shows it."""
    events = [
        record.event_log_entry.dagster_event
        for run in instance.get_runs()
        for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    ]
    return "\n".join(event.step_failure_data.error.to_string() for event in events if event)


@pytest.mark.parametrize("kind", ENDS)
def test_every_door_says_the_same_cause(
    project: Project, ft: Ft, pair: tuple[str, str], instance: dg.DagsterInstance, monkeypatch: Patch, kind: str
) -> None:
    end, store = ENDS[kind], project.store
    end.make(store, monkeypatch)
    if end.make is not held:
        # Or what is prepared would be run again, to be shown.
        ft("rebuild")
    run = ft("run", *pair)
    assert run.exit_code == end.code, run.output
    (asked,) = api.list_submissions(store=store)
    doors = {
        "run": run.output,
        "status": ft("status", asked.submission).output,
        "logs": ft("logs", asked.submission).output,
        "notice": notices(store),
    }
    for door, text in doors.items():
        told = end.told if door == "notice" and end.told else end.cause
        assert told in text, (door, text)
        assert end.remedy in text, (door, text)
    assert not end.told or end.cause not in doors["notice"]
    assert not end.blame or f"({end.blame})" in doors["notice"]
    shown = failures_in_dagster(instance)
    assert (end.cause in shown) == end.in_dagster, shown
    # Neither Dagster's frames nor ours: nobody mends a dataset by them.
    assert "Stack Trace" not in shown
    assert "dagster" not in shown
    assert "open its run" not in str(doors)


def test_a_lost_run_is_told_as_one_by_every_door(
    project: Project, ft: Ft, pair: tuple[str, str], instance: dg.DagsterInstance
) -> None:
    store = project.store
    prepared(store, None)  # type: ignore[arg-type]
    asked = get_submission(store, ft("submit", *pair).stdout.strip())
    run = create_run_for_test(instance, job_name="train_pair", tags={tags.SUBMISSION: asked.id})
    instance.report_run_failed(run, "its process is gone")
    present, runs = api.present(asked, store=store), {Stage.TRAIN_PAIR: RunState.FAILED}
    wanted = Wanted(submission=asked, present=present, runs=runs)
    failure_of = partial(failure_of_submission, instance, store)
    assert api.next_launches([wanted], failure_of=failure_of, store=store) == ([], 1)
    assert find_outcome(store, asked) is not None
    for text in (ft("status", asked.id).output, ft("logs", asked.id).output, notices(store)):
        assert "its process was lost" in text
        assert "Launch it again" in text
