"""What the terminal shows: others' texts without commands for it, and a running submission's work."""

import io
import json
import logging
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import typer
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.tree import Tree
from typer.testing import CliRunner, Result

from ft_assets.cli.live import LABELS, LiveView, render
from ft_assets.cli.main import _Group
from ft_assets.cli.output import note, print_error, print_json, print_suggestions, print_table, warn
from ft_assets.cli.status import describe, remark
from ft_assets.cli.terminal import relayed
from ft_assets.control.submissions.status import STATE_OF_WORK, derive
from ft_assets.control.submissions.works import Work
from ft_assets.records.submissions import Submission
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt, chunk_path
from ft_resources.errors import UserError
from ft_resources.shown import shown
from ft_resources.store import Store
from tests.cli.conftest import Ft
from tests.e2e.project import Project

# A title, a screen wiped, a line written over, letters turned round, C1, other ends of lines, half a letter.
EVIL = "good\x1b]0;owned\x07\x1b[2J\x1b[31m\rbad\x08\x7f\x9b1A\u202egnp\u2066\u200f\u2028x\x85y\udc9bend"
LOG = logging.getLogger("ft_assets.server.somewhere")


def raised() -> None:
    raise UserError(EVIL, where=EVIL, remedy=EVIL)


def table() -> Table:
    found = Table(title=EVIL)
    found.add_column(EVIL)
    found.add_row(EVIL)
    return found


def live() -> None:
    with Live(table(), console=Console(), auto_refresh=False) as view:
        view.update(Panel(EVIL, title=EVIL), refresh=True)


def logged() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        LOG.exception("%s", EVIL)


WAYS: dict[str, Callable[[], object]] = {
    "print": lambda: print(EVIL),
    "print to stderr": lambda: print(EVIL, file=sys.stderr),
    "lines": lambda: sys.stdout.writelines([EVIL, "\n"]),
    "typer": lambda: typer.echo(EVIL),
    "typer in colour": lambda: typer.secho(EVIL, fg="red", color=True, err=True),
    "a note": lambda: note(EVIL),
    "a warning": lambda: warn([EVIL]),
    "a table": lambda: print_table([EVIL], [[EVIL]], empty=EVIL),
    "suggestions": lambda: print_suggestions([EVIL]),
    "JSON": lambda: print_json({EVIL: EVIL}),
    "an error": lambda: print_error(UserError(EVIL, where=EVIL, remedy=EVIL)),
    "a raised error": raised,
    "rich": lambda: Console().print(EVIL),
    "rich without a text of its own": lambda: Console().out(EVIL, highlight=False),
    "a tree": lambda: Console().print(Tree(EVIL)),
    "the live view": live,
    "a log": logged,
    "a wrong argument": lambda: None,
}


def commands(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n"}


@pytest.fixture
def ft_that(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command of ``ft`` that does what it is told to."""

    def run(does: Callable[[], object], *arguments: str) -> Result:
        # Not before: pytest has handlers of its own for the time of the test itself.
        monkeypatch.setattr(logging.root, "handlers", [])
        monkeypatch.setattr(logging, "lastResort", copy(logging.lastResort))
        app = typer.Typer(cls=_Group)
        app.callback()(lambda: None)
        app.command("write")(lambda: does() and None)
        return CliRunner().invoke(app, ["write", *arguments])

    return run


@pytest.mark.parametrize("way", WAYS)
def test_no_command_in_a_text_reaches_the_terminal(way: str, ft_that: Callable[..., Result]) -> None:
    done = ft_that(WAYS[way], *([EVIL] if way == "a wrong argument" else []))
    assert "good" in done.output
    assert "end" in done.output
    assert commands(done.output) == set()


def test_what_the_terminal_gets_of_rich_keeps_its_colours(
    ft_that: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = ft_that(lambda: Console(highlight=False).print("[red]good[/]"))
    assert done.stdout == "\x1b[31mgood\x1b[0m\n"


def test_json_for_machines_holds_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    text = EVIL + "é\tü\n"
    print_json({"text": text})
    written = capsys.readouterr().out
    assert json.loads(written) == {"text": text}
    assert "é" in written


def test_a_line_of_a_log_is_begun_by_no_text_in_it(ft_that: Callable[..., Result]) -> None:
    """The path of a request may hold an end of line."""
    done = ft_that(lambda: LOG.warning("GET /v1/%s: %s", "x\nfirst", "y\r\nsecond\rthird"))
    assert done.stderr == "GET /v1/x\n    first: y\n    second\n    third\n"


def test_a_command_that_breaks_ends_with_a_traceback_without_commands() -> None:
    code = (
        "import sys; from ft_assets.cli import main, ledger\n"
        "def broken(): raise ValueError('good \\x1b[2J end')\n"
        "main._before_every_command = broken; main.app.registered_callback.callback = broken\n"
        "sys.argv = ['ft', 'ledger', 'x']; main.app()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("ValueError: good \ufffd[2J end\n")


def test_the_output_of_a_process_that_ft_starts_is_shown_like_its_own(ft_that: Callable[..., Result]) -> None:
    code = "import sys; print('good \\x1b[2J', flush=True); sys.stderr.buffer.write('\\u202eend é'.encode())"

    def start() -> None:
        process, output = relayed([sys.executable, "-c", code], {})
        assert process.wait() == 0
        output.join()

    assert ft_that(start).stderr == "good \ufffd[2J\n\ufffdend é"


def test_the_log_of_a_worker_is_shown_without_commands(project: Project, ft: Ft, pair: tuple[str, str]) -> None:
    address = Address(tenant="acme", asset="dataset", fingerprint="ff" * 32)
    attempt = Attempt(project.store, address, 1)
    attempt.claim("ann")
    said = "10%\r20%\rgood é \x1b[32mgreen\x1b[0m \x1b[2J end\n".encode()
    half = said.index(b"\xa9")
    for number, piece in enumerate((said[:half], said[half:]), 1):
        project.store.put(chunk_path(attempt.path, "log", number), piece)
    assert ft("logs", address).stdout == "10%\n20%\ngood é green \ufffd[2J end\n"


def test_names_and_rows_of_others_are_quoted_without_commands(ft: Ft, project: Project) -> None:
    file = project.folder / "a\x1b[2Jb\u202ec.jsonl"
    file.write_text(json.dumps({"prompt": "a", "answer\x1b[2J\u202e": "b"}) + "\n")
    for arguments in (("dataset", "add", file, "--name", "acme.evil"), ("run", file), (f"x{file.name}",)):
        refused = ft(*arguments)
        assert refused.exit_code
        assert commands(refused.output) == set(), arguments


def test_an_error_in_the_log_of_any_process_holds_no_commands() -> None:
    assert commands(str(UserError(EVIL, where=EVIL, remedy=EVIL))) == set()


def test_most_texts_are_shown_as_they_are() -> None:
    text = "日本語 עברית \U0001f469\u200d\U0001f680 é\u0301\ttab\nline\n"
    assert shown(text) == text


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


def lines_of(*works: Work) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(SUBMISSION, works))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_piece_of_work_has_a_label() -> None:
    assert set(LABELS) == set(STATE_OF_WORK)
    for asset in STATE_OF_WORK:
        assert LABELS[asset] in lines_of(Work(asset=asset))


def test_alerts_of_a_running_training_are_shown_while_it_runs() -> None:
    assert ALERT in lines_of(training(alerts=[ALERT]))
    assert "!" not in lines_of(training(alerts=[]))


def test_what_a_finished_training_says_of_its_result_stays_and_of_its_speed_does_not() -> None:
    alerts = [
        {"kind": kind, "step": 12, "what": f"it was {kind}", "remedy": "Do more."} for kind in ("slow", "unmoved")
    ]
    done = replace(training(), done=True, facts={"alerts": alerts})
    assert "it was unmoved, after step 12. Do more." in lines_of(done)
    assert "it was slow" not in lines_of(done)


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
