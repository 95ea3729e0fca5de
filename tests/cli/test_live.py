"""What a running submission shows of its work."""

import io
from dataclasses import replace
from datetime import datetime
from typing import Any

from rich.console import Console

from ft_assets.cli.live import LABELS, LiveView, render
from ft_assets.cli.status import describe, remark
from ft_assets.control.submissions.status import STATE_OF_WORK, derive
from ft_assets.control.submissions.works import Work
from ft_assets.records.submissions import Submission
from ft_resources.artifacts import Address
from ft_resources.store import Store

SUBMISSION = Submission(
    id="0123456789abcdef",
    dataset="acme.support.v1",
    recipe="tiny.v1",
    actor="ann",
    origin="cli",
    idempotency_key="k",
    driver="caller",
    created_at="2026-11-01T12:00:00.000+00:00",
)
ASKED = datetime.fromisoformat(SUBMISSION.created_at).timestamp()
ALERT = "100 tokens/s are under half of the 5,400 that the estimate expects, up to step 40. Look for other work"


def training(**progress: Any) -> Work:
    beat = {"phase": "training", "done": 40, "total": 120, "loss": 1.25, "at": ASKED + 9, **progress}
    address = Address(tenant="acme", asset="checkpoint", fingerprint="ff")
    return Work(asset="checkpoint", address=address, attempt=1, claimed_at=ASKED + 5, progress=beat)


def shown(*works: Work) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(SUBMISSION, works))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_piece_of_work_has_a_label() -> None:
    assert set(LABELS) == set(STATE_OF_WORK)
    for asset in STATE_OF_WORK:
        assert LABELS[asset] in shown(Work(asset=asset))


def test_alerts_of_a_running_training_are_shown_while_it_runs() -> None:
    assert ALERT in shown(training(alerts=[ALERT]))
    assert "!" not in shown(training(alerts=[]))


def test_what_a_finished_training_says_of_its_result_stays_and_of_its_speed_does_not() -> None:
    alerts = [
        {"kind": kind, "step": 12, "what": f"it was {kind}", "remedy": "Do more."} for kind in ("slow", "unmoved")
    ]
    done = replace(training(), done=True, facts={"alerts": alerts})
    assert "it was unmoved, after step 12. Do more." in shown(done)
    assert "it was slow" not in shown(done)


def test_a_remark_of_two_sentences_has_one_mark_between_them() -> None:
    failed = replace(derive(SUBMISSION, None, [], now=ASKED), detail="the split is empty.", remedy="Add rows.")
    assert remark(failed) == "the split is empty; what to do: Add rows."


def test_status_tells_the_alerts_of_a_running_training_beside_its_numbers() -> None:
    found = derive(SUBMISSION, None, [training(alerts=[ALERT])], now=ASKED + 10)
    assert found.alerts == (ALERT,)
    assert remark(found) == f"alert: {ALERT}"
    assert "40/120" in describe(found)
    quiet = derive(SUBMISSION, None, [training()], now=ASKED + 10)
    assert (quiet.alerts, remark(quiet)) == ((), "")


def test_where_stdout_is_no_terminal_each_alert_is_a_line_of_its_own_and_comes_once(tmp_path: Any) -> None:
    view = LiveView(Store(str(tmp_path / "store")), SUBMISSION)
    output = io.StringIO()
    view._console = Console(file=output, width=200)
    view._works = (training(alerts=[ALERT]),)
    view._print_changes()
    view._print_changes()
    assert output.getvalue() == f"train: alert: {ALERT}\ntrain: training 40/120, loss 1.250\n"


def test_where_stdout_is_no_terminal_a_line_now_and_then_tells_loss_rate_and_time_left(tmp_path: Any) -> None:
    view = LiveView(Store(str(tmp_path / "store")), SUBMISSION)
    output = io.StringIO()
    view._console = Console(file=output, width=200)
    for step in range(1, 1001):
        view._works = (training(done=step, total=1000, loss=4 - step / 500, tokens_per_s=5400.0, eta_s=1000.0 - step),)
        view._print_changes()
    lines = output.getvalue().splitlines()
    assert lines[0] == "train: training 1/1000, loss 3.998, 5,400 tokens/s, 16 min 39 s left"
    assert lines[-1] == "train: training 1000/1000, loss 2.000, 5,400 tokens/s, 0 s left"
    assert len(lines) == 21
