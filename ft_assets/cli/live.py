"""What ``ft run`` shows: the stages with their progress while it runs, then gates and adapter, or what went wrong.

Everything shown is read from the store, as ``ft status`` does it; the jobs run in the main thread beside it.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from datetime import datetime
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ft_assets.api import Work
from ft_assets.cli.addresses import short
from ft_assets.cli.door import api
from ft_assets.cli.output import print_suggestions, print_table
from ft_assets.cli.status import reasons
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus
from ft_resources.errors import UserError
from ft_resources.progress_words import describe_progress, seconds
from ft_resources.store import Store

POLL_S = 0.5
# Looking takes a fortieth of a core at most: a training on all cores waits for the slowest of its threads.
REST = 40
# Where nothing can be rewritten: lines for all that one phase counts.
_LINES = 20
LABELS = {
    "dataset": "curate dataset",
    "base_model": "mirror base model",
    "baseline_report": "score base model",
    "token_pack": "pack tokens",
    "reference_logps": "score with the reference",
    "checkpoint": "train",
    "eval_report": "evaluate",
    "adapter": "export adapter",
}


class LiveView:
    """Shows a submission while the block runs; if stdout is not a terminal, in a line for each change of phase and for
    each twentieth of what a phase counts.

    Args:
        store: where the submission is; None for that of all commands.
    """

    def __init__(self, store: Store | None, submission: Submission) -> None:
        self._store, self._submission = store, submission
        # Until the store was read for the first time; only some methods have a reference.
        self._works: tuple[Work, ...] = tuple(Work(asset=asset) for asset in LABELS if asset != "reference_logps")
        self._spinner = Spinner("dots", style="cyan")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="live-view", daemon=True)
        self._stack = ExitStack()
        self._printed: set[tuple[str, str]] = set()

    def __enter__(self) -> None:
        self._console = Console(file=self._stack.enter_context(_own_stdout()), highlight=False, markup=False)
        self._live = self._console.is_terminal
        if self._live:
            live = Live(
                get_renderable=self._render,
                console=self._console,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._stack.enter_context(live)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._stack.close()

    def _poll(self) -> None:
        rest_s = POLL_S
        while True:
            over = self._over.wait(rest_s)
            began = time.thread_time()
            # The jobs meet the same problem and report it; the view only waits.
            with suppress(UserError):
                self._works = api.works(self._submission, store=self._store)
            rest_s = max(POLL_S, REST * (time.thread_time() - began))
            if not self._live:
                self._print_changes()
            if over:
                return

    def _render(self) -> RenderableType:
        return render(self._submission, self._works, spinner=self._spinner)

    def _print_changes(self) -> None:
        for work in self._works:
            for alert in work.alerts:
                self._print_once(work, alert, f"alert: {alert}")
            if work.done:
                self._print_once(work, "done", "done")
            elif work.running and (phase := str(work.progress.get("phase", ""))):
                total = work.progress.get("total") or 0
                share = int(_LINES * work.progress.get("done", 0) / total) if total else 0
                self._print_once(work, f"{phase} {share}", describe_progress(work.progress))

    def _print_once(self, work: Work, what: str, text: str) -> None:
        if (label(work), what) not in self._printed:
            self._printed.add((label(work), what))
            self._console.print(f"{label(work)}: {text}", markup=False)


class WatchedRun(Dagster):
    """Runs a submission's jobs while a live view shows them; Ctrl-C cancels the submission.

    ``submission`` is the one that was run, None before.
    """

    submission: Submission | None = None

    def run(self, store: Store, submission: Submission) -> SubmissionOutcome:
        return self.watch(submission, lambda: super(WatchedRun, self).run(store, submission), store)

    def watch(
        self, submission: Submission, end: Callable[[], SubmissionOutcome], store: Store | None = None
    ) -> SubmissionOutcome:
        """What ``end`` gives, which waits until the submission has ended; wherever its jobs run."""
        self.submission = submission
        try:
            with LiveView(store, submission):
                return end()
        except KeyboardInterrupt:
            return api.end_interrupted(submission, store=store)


def label(work: Work) -> str:
    """Display name of a piece of work."""
    return f"train trial {work.trial}" if work.trial else LABELS[work.asset]


def _own_stdout() -> AbstractContextManager[TextIO]:
    """A separate stream to the current stdout: Dagster redirects the file descriptor itself while a step runs."""
    try:
        return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):
        # Not a file, as in a notebook or a test.
        return nullcontext(sys.stdout)


def render(submission: Submission, works: Sequence[Work], *, spinner: RenderableType = "…") -> RenderableType:
    """The stages of a submission, rendered for the terminal."""
    asked = datetime.fromisoformat(submission.created_at).timestamp()
    header = Text.assemble(
        (submission.dataset, "bold"), " × ", (submission.recipe, "bold"), (f"   submission {submission.id}", "dim")
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    for work in works:
        if work.done:
            remark = "made" if work.claimed_at >= asked else "reused"
            table.add_row(Text("✓", "green"), label(work), Text(remark, "dim"))
        elif work.running:
            table.add_row(spinner, Text(label(work), "bold"), _running(work))
        elif work.ending is not None and work.claimed_at >= asked:
            table.add_row(Text("✗", "red"), label(work), Text(work.ending.outcome, "red"))
        else:
            table.add_row(Text("·", "dim"), Text(label(work), "dim"), "")
        for alert in work.alerts:
            table.add_row(Text("!", "yellow"), "", Text(alert, "yellow"))
    return Group(header, table)


def _running(work: Work) -> RenderableType:
    """Phase, bar and numbers of work in progress."""
    progress = work.progress
    total = progress.get("total") or 0
    text = str(progress.get("phase", "starting"))
    if total:
        text += f" {progress['done']:,}/{total:,}"
    if progress.get("loss") is not None:
        text += f"  loss {progress['loss']:.3f}"
    if progress.get("tokens_per_s"):
        text += f"  {progress['tokens_per_s']:,.0f} tokens/s"
    if progress.get("gpus"):
        text += f"  on {progress['gpus']} GPUs for now"
    if progress.get("eta_s") is not None:
        text += f"  {seconds(progress['eta_s'])} left"
    if not total:
        text += f"  {seconds(time.time() - work.claimed_at)}"
        return Text(text)
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=total, completed=progress["done"], width=30), Text(text))
    return row


def print_outcome(store: Store | None, submission: Submission, outcome: SubmissionOutcome) -> None:
    """Print the gates or scores, and the result's address or the reason why nothing was made."""
    console = Console(highlight=False, soft_wrap=True)
    if outcome.status in (SubmissionStatus.ACCEPTED, SubmissionStatus.REJECTED):
        _print_gates(store, submission)
    talk = Text(f"talk to it: ft chat {submission.id}", "dim")
    if outcome.status is SubmissionStatus.ACCEPTED:
        console.print(Text.assemble(("accepted  ", "bold green"), outcome.adapter))
        console.print(talk)
        console.print(Text(f"download it: ft adapter download {short(outcome.adapter)} FOLDER", "dim"))
        return
    if outcome.status is SubmissionStatus.UNGATED:
        _print_scores(store, submission)
        console.print(Text.assemble(("ungated   ", "bold blue"), outcome.adapter))
        for line in reasons(api.status(submission.id, store=store)):
            console.print(Text(line, "dim"))
        console.print(talk)
        console.print(Text(f"download it: ft adapter download {short(outcome.adapter)} FOLDER", "dim"))
        return
    styles = {SubmissionStatus.REJECTED: "bold yellow", SubmissionStatus.FAILED: "bold red"}
    reason, *more = reasons(api.status(submission.id, store=store))
    if outcome.status is SubmissionStatus.REJECTED:
        # The table above has the reasons.
        first = f"{reason.splitlines()[0].partition(': ')[2]}; " if outcome.told != outcome.status else ""
        reason = f"{first}the candidate is kept but not served"
    console.print(Text.assemble((f"{outcome.told}  ", styles.get(outcome.status, "bold")), reason))
    for line in more:
        console.print(Text(line))
    print_suggestions(outcome.suggestions)
    if outcome.status is SubmissionStatus.REJECTED:
        console.print(talk)


def _print_gates(store: Store | None, submission: Submission) -> None:
    """Each gate's verdict on the candidate, judged again from the stored evidence."""
    found = api.show_gates(submission.dataset, submission.recipe, gates=submission.gates, store=store)
    styles = {"pass": "green", "fail": "red", "inconclusive": "yellow", "not required": "dim"}
    print_table(
        ("gate", "verdict", "why"),
        [(verdict.gate, Text(verdict.outcome, styles[verdict.outcome]), verdict.reason) for verdict in found.verdicts],
        empty="",
    )


def _print_scores(store: Store | None, submission: Submission) -> None:
    """What was measured on the holdout, of the base and of the result."""
    found = api.evaluation(submission.dataset, submission.recipe, store=store).evidence
    rows = [(name, f"{m.base:.4g}", f"{m.candidate:.4g}", str(m.n)) for name, m in found.holdout.items()]
    print_table(("holdout", "base", "result", "rows"), rows, empty="")
