"""Somebody who works as the pages say: commands, ``ft ui`` with Dagster's pages and the report pages, and notices."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.settings.tags import SUBMISSION
from ft_resources.process_trees import end_tree
from tests.control.notices.servers import Hook, webhook
from tests.e2e.dagster_server import LONG_S, DagsterServer, free_port, wait_for
from tests.e2e.project import COLOURS, ROOT, Project, make_project
from tests.s3_server import s3_server, use_bucket
from tests.warm_workers import PLACE

FT = (sys.executable, "-c", "from ft_assets.cli.main import app; app()")
_SUITE = ROOT / "ft_assets" / "demo" / "suites" / "book_cloze" / "items.jsonl"
# All that a run's page can show of it, its pictures too.
_LOG = """query($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
  ... on MessageEvent { message }
  ... on ExecutionStepFailureEvent { error { message causes { message } } }
  ... on MaterializationEvent { metadataEntries { ...Words } }
  ... on ObservationEvent { description metadataEntries { ...Words } }
  ... on AssetCheckEvaluationEvent { evaluation { description } }
} } } }
fragment Words on MetadataEntry { ... on TextMetadataEntry { text } ... on MarkdownMetadataEntry { mdStr }
  ... on UrlMetadataEntry { url } }"""


@dataclass(frozen=True, kw_only=True)
class Newcomer:
    """A project in which ``make demo`` ran, with ``ft ui`` open and a webhook for its notices. ``demo`` is what the
    demo printed."""

    project: Project
    demo: str
    ui: DagsterServer
    hook: Hook

    def ft(self, *words: object, code: int = 0) -> str:
        """What a command prints. Fails where it ends with another code."""
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, (words, done.output)
        return done.output

    def submission(self, pair: str) -> str:
        """The id of the pair's newest submission."""
        found = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
        return next(str(each["submission"]) for each in found if f"{each['dataset']}|{each['recipe']}" == pair)

    def notice(self, kind: str, subject: str, words: str = "") -> str:
        """The one notice of this kind about a submission, a dataset or a line that has the words, as text; waits for
        it."""

        def told() -> list[str]:
            bodies = [json.loads(body) for _, body in self.hook.got]
            texts = [spoken(body) for body in bodies if (body["kind"], body["subject"]) == (kind, subject)]
            return [text for text in texts if words in text]

        (text,) = wait_for(told, LONG_S, f"the notice that {subject} is {kind}")
        return text

    def run(self, submission: str, job: str) -> str:
        """The id of the last run of a submission's job, once that run has ended: a notice may come before."""

        def ended() -> str:
            for run in self.ui.runs():
                tags = {tag["key"]: tag["value"] for tag in run["tags"]}
                if run["jobName"] == job and tags.get(SUBMISSION) == submission:
                    return str(run["runId"]) if run["status"] in ("SUCCESS", "FAILURE", "CANCELED") else ""
            return ""

        return wait_for(ended, LONG_S, f"the end of {job} of submission {submission}")

    def log(self, run: str) -> str:
        """What the page of a run has to show."""
        return spoken(self.ui.query(_LOG, id=run))

    def report(self, run: str, asset: str) -> str:
        """The report page of an asset that the page of a run links to."""
        (url,) = set(re.findall(rf"http://127\.0\.0\.1:\d+/\w+/{asset}/\w+/report/report\.html", self.log(run)))
        return str(url)

    def looks(self, kind: str, pair: str, job: str = "train_pair") -> dict[str, str]:
        """The three looks at how a pair ended: two commands, the page of its run, and the notice."""
        submission = self.submission(pair)
        return {
            "ft status": self.ft("status", submission),
            "ft logs": self.ft("logs", submission),
            "the run's page": self.log(self.run(submission, job)),
            "the notice": self.notice(kind, pair.partition("|")[0] if kind == "held" else submission),
        }


def spoken(answer: object) -> str:
    """All strings of a JSON answer, one a line."""
    if isinstance(answer, Mapping):
        return "\n".join(map(spoken, answer.values()))
    return "\n".join(map(spoken, answer)) if isinstance(answer, list) else str(answer)


@contextmanager
def newcomer(folder: Path, *, cold: bool) -> Iterator[Newcomer]:
    """After ``make demo`` with a store on S3, with ``make ui`` open.

    If ``cold``, each of the demo's workers starts as a user's does, and imports what it needs itself.
    """
    with s3_server() as endpoint, webhook() as hook, pytest.MonkeyPatch.context() as patch:
        project = make_project(folder, use_bucket(patch, endpoint, "demo"))
        ui, pages = free_port(), free_port()
        reports = {"FT_REPORTS_URL": f"http://127.0.0.1:{pages}"}
        typed = {name: value for name, value in project.environment.items() if name != "FT_TRACKING"} | reports
        typed |= {PLACE: "", "PYTHONPATH": str(ROOT)} if cold else {}
        demo = subprocess.run([*FT, "demo"], cwd=folder, env=typed, capture_output=True, text=True)
        assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
        notify = f"notify: {{webhook: {{url: '{hook.url}', secret_env: FT_WEBHOOK_US}}}}\n"
        (folder / "tenants.yaml").write_text(notify)
        environment = {
            **project.environment,
            "FT_TENANTS": str(folder / "tenants.yaml"),
            "FT_TENANT": "acme",
            "FT_NOTIFY_HOSTS": "127.0.0.1",
            "FT_WEBHOOK_US": "a key of thirty-two characters..",
            **reports,
            "FT_SENSOR_SECONDS": "3",
        }
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        command = [*FT, "ui", "-p", str(ui)]
        with (folder / "ui.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            printed = wait_for(lambda: re.search(r"\?token=(\S+)", (folder / "ui.log").read_text()), LONG_S, "the URL")
            server = DagsterServer(ui, process, printed.group(1))
            wait_for(server.answers, LONG_S, "Dagster's pages")
            server.rest("notices")
            yield Newcomer(project=project, demo=demo.stdout, ui=server, hook=hook)
        finally:
            end_tree(process.pid)
            process.wait()


def see(driver: Any, url: str, *sentences: str) -> None:
    """Wait until the page at ``url`` shows the sentences."""

    def shown() -> bool:
        text = " ".join(driver.find_element("tag name", "body").text.split())
        return all(sentence in text for sentence in sentences)

    driver.set_window_size(1500, 1400)
    driver.get(url)
    wait_for(shown, LONG_S, f"{sentences} at {url}")


def faq(folder: Path) -> Path:
    """A spreadsheet's export, with columns of its own names."""
    with (folder / "faq.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "answer"])
        rows.writerows([f"what colour is box {n}?", f"box {n} is {COLOURS[n % 5]}"] for n in range(120))
    return folder / "faq.csv"


def quoting_pairs(project: Project) -> Path:
    """Prompts with two answers each; one quotes a test of the demo's suite."""
    quote = json.loads(_SUITE.read_text().splitlines()[0])["context"]
    rows = [json.loads(line) for line in project.pairs().read_text().splitlines()]
    rows[3] = {"prompt": "go on", "chosen": quote, "rejected": "no"}
    return project.rows("pairs.jsonl", rows)
