"""A submission's spans: one trace for all processes, whose work, attempts and phases stand below the submission's."""

from dataclasses import replace

import pytest

from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_resources.execution import Execution, Observer
from ft_resources.store import Store
from ft_resources.traced_work import traced
from ft_resources.tracing import ending, tracer
from tests.collector import attributes, collecting
from tests.resources.small_work import request_for

pytestmark = pytest.mark.subprocess


def test_a_worker_that_is_tried_again_has_a_span_for_each_attempt_and_phase_below_its_submission(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(execution, sleep=lambda s: None)
    with collecting(monkeypatch) as collector:
        with traced("checkpoint", "5ab1e", Observer()) as observer:
            quick.run(request_for("fail", how="platform", times=1), actor="t", observer=observer)
        work, first, second = (collector.named(name) for name in ("checkpoint", "attempt 1", "attempt 2"))
        done = collector.named("done")
        assert len({span.trace_id for span in collector.spans()}) == 1
    assert first.parent_span_id == second.parent_span_id == work.span_id
    assert done.parent_span_id == second.span_id
    assert attributes(first)["ft.outcome"] == "platform_error"
    assert first.end_time_unix_nano <= second.start_time_unix_nano


def test_the_submissions_own_span_is_the_parent_of_its_work_and_says_how_it_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Submission(
        id="0123456789abcdef",
        dataset="acme.tickets.v1",
        recipe="support.v1",
        actor="ann",
        origin="cli",
        idempotency_key="ask-1",
        driver="sensor",
        created_at="2026-01-01T00:00:00+00:00",
    )
    with collecting(monkeypatch) as collector:
        with traced("dataset", found.id, Observer()):
            pass
        finish(store, found, SubmissionStatus.CANCELLED, reason="enough")
        finish(store, found, SubmissionStatus.FAILED, reason="later")
        root, work = collector.named("submission"), collector.named("dataset")
    assert (work.trace_id, work.parent_span_id) == (root.trace_id, root.span_id)
    assert root.parent_span_id == b""
    assert attributes(root) == {"ft.tenant": "acme", "ft.pair": found.pair, "ft.status": "cancelled"}


def test_of_an_error_a_span_tells_the_type_and_not_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting(monkeypatch) as collector:
        with pytest.raises(ValueError, match="my secret row"), ending(tracer().start_span("work")):
            raise ValueError("my secret row")
        assert collector.named("work").status.message == "ValueError"
    assert b"secret" not in b"".join(collector.bodies)


def test_without_a_collector_no_span_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert not tracer().start_span("work").is_recording()
