"""``ft demo``: the whole path on this machine, from real text to one adapter in staging and one rejected pair."""

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ft_assets import api
from ft_assets.cli.door import require_store
from ft_assets.cli.run import run
from ft_assets.demo.dataset import build_demo_dataset
from ft_assets.settings.environment import open_store
from ft_resources.canonical import digest
from ft_resources.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus
    from ft_resources.store import Store

FOLDER = Path(__file__).resolve().parents[1] / "demo"
NAME, SUITE = "demo.docs", "book-cloze.v1"
_EXAMPLES = 8
QUESTION = "def rmtree(path, ignore_errors=False, onerror=None)\n\nWhat is the default of ignore_errors?"


Base = Annotated[str, typer.Option(help="Use another base: hub:ORG/NAME@REVISION, or folder:PATH.")]
Dataset = Annotated[str, typer.Option(help="Use another dataset: hub:ORG/NAME@REVISION#SPLIT, or a JSON lines file.")]


Serve = Annotated[bool, typer.Option("--serve", help="At the end, query the adapter in staging over HTTP.")]


def demo(base: Base = "", dataset: Dataset = "", serve: Serve = False) -> None:
    """Train an adapter on real text that passes its gates, and a careless recipe that is rejected. No network, no GPU.

    With --base or --dataset, only the careful recipe is run, on these.
    """
    require_store("ft demo")
    if base or dataset:
        return _demo_on(base, dataset)
    _demo_offline(serve=serve)


def _demo_on(base: str, dataset: str) -> None:
    """Run the careful recipe on another base, another dataset, or both; exits as ``ft run`` does."""
    store, name, named = open_store(create=True), "", dataset
    if dataset:
        _register_suite(store)
        name = "demo.own"
    else:
        named = _register(_console(), store)
    recipe = own_recipe(base, dataset, Path(os.environ["FT_STATE"]) / "demo")
    run(named, str(recipe), name=name)


def own_recipe(base: str, dataset: str, folder: Path) -> Path:
    """Write the careful recipe with another base and, for other data, with perplexity as the task's metric.

    Its key is derived from what was named, so naming the same again is the same recipe.
    """
    import yaml

    recipe = yaml.safe_load((FOLDER / "recipe.yaml").read_text(encoding="utf-8"))
    recipe["base"] = base or f"folder:{FOLDER / 'base'}"
    if dataset:
        recipe["gates"]["task_gain"]["metric"] = "perplexity"
        recipe["packing"]["overlong"] = "drop"
    recipe["key"] = f"demo-{digest(recipe)[:10]}.v1"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{recipe['key']}.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def _demo_offline(*, serve: bool) -> None:
    from ft_assets.cli.output import note
    from ft_assets.records.submissions import SubmissionStatus

    console, store = _console(), open_store(create=True)
    console.rule("[bold]Fine-tuning demo")
    dataset = _register(console, store)
    console.print("\n[bold]1. A careful recipe.[/] It must answer better than the base, without regressions.")
    careful, accepted = _run(store, dataset, "recipe.yaml", SubmissionStatus.ACCEPTED)
    _print_gain(console, store, careful)
    line = _promote(console, store, accepted.adapter)
    console.print("\n[bold]2. A careless recipe.[/] The same data, a learning rate that is far too high.")
    _run(store, dataset, "recipe_forgetful.yaml", SubmissionStatus.REJECTED)
    console.print("\n[bold]Both pairs, their plots and their gates are in Dagster:[/] make ui")
    note("The store and Dagster's state are in .ft/; a second run of the demo reuses everything.")
    if serve:
        _ask(console, store, line)


def _register(console: "Console", store: "Store") -> str:
    """Make and register the dataset and the suite. Returns the dataset version's key."""
    built = build_demo_dataset(Path(os.environ["FT_STATE"]) / "demo" / "docs.jsonl")
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(built.counts.items()))
    console.print(
        f"Data: {built.rows:,} questions about signatures in this Python's own standard library "
        f"({kinds}).\nWhole modules are held out, so no test question comes from a file used in "
        "training.\nBase: a 3.5-million-parameter model trained on a few old novels and on no Python."
    )
    _register_suite(store)
    return str(api.add_dataset(built.path, NAME, policy=FOLDER / "dataset.yaml", store=store).key)


def _console() -> "Console":
    """The demo's console. Lines are not wrapped: a terminal wraps them, and a log should not."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _register_suite(store: "Store") -> None:
    api.add_suite(FOLDER / "suites" / "book_cloze", SUITE, store=store)


def _run(
    store: "Store", dataset: str, recipe: str, expected: "SubmissionStatus"
) -> tuple["Submission", "SubmissionOutcome"]:
    """Fine-tune in the foreground. Exits with an error if the pair does not end as the demo promises."""
    from ft_assets.cli.live import WatchedRun, print_outcome

    made = api.fine_tune(dataset, FOLDER / recipe, store=store, origin="cli", orchestrator=WatchedRun())
    print_outcome(store, made.submission, made.outcome)
    if made.outcome.status is not expected:
        raise typer.Exit(1)
    return made.submission, made.outcome


def _ask(console: "Console", store: "Store", line: str) -> None:
    """Serve the adapter in staging, ask it one question, and end the servers."""
    from ft_assets.cli.demo_serving import ask_in_staging

    console.print(
        "\n[bold]3. The adapter in staging, over HTTP.[/] The server stops with the demo; make serve starts it again."
    )
    command, answer = ask_in_staging(line, QUESTION, store=store)
    console.print(f"$ {command}", markup=False)
    console.print(answer, markup=False)


def _promote(console: "Console", store: "Store", adapter: str) -> str:
    """Promote to staging and, if allowed, to production; prints the reason for a refusal. The line."""
    from ft_assets.cli.output import note

    reason = "demo: all gates passed"
    record, _ = api.promote(adapter, "staging", reason=reason, store=store)
    console.print(f"\n[bold]Promotion[/] of line {record.line}:")
    console.print(f"staging     {record.adapter.address[:32]}…, by {record.actor}: {record.reason}")
    try:
        api.promote(adapter, "production", reason=reason, store=store)
    except UserError as refusal:
        console.print(f"production  [red]refused[/]: {refusal.what}")
        note("a model this small never refuses, so the demo's recipes have no safety gate: see docs/how-to/safety.md")
    else:
        console.print("production  the same")
    return record.line


def _print_gain(console: "Console", store: "Store", submission: "Submission") -> None:
    """Print scores before and after by kind of question, the majority baseline, and examples picked by a fixed seed."""
    from rich.table import Table
    from rich.text import Text

    found = api.evaluation(submission.dataset, submission.recipe, store=store)
    evidence, rows = found.evidence, _holdout_rows(store, found.report.read("samples/holdout.parquet"), submission)
    console.print("\n[bold]Exact answers on held-out modules:")
    table = Table(box=None, pad_edge=False)
    for column in ("question", "n", "base", "tuned"):
        table.add_column(column, justify="left" if column == "question" else "right")
    for kind in sorted({row["kind"] for row in rows}):
        of_kind = [row for row in rows if row["kind"] == kind]
        table.add_row(kind.replace("_", " "), str(len(of_kind)), _share(of_kind, "base"), _share(of_kind, "candidate"))
    table.add_row("[bold]all", str(len(rows)), _share(rows, "base"), f"[bold]{_share(rows, 'candidate')}")
    console.print(table)
    console.print(f"always giving the most frequent training answer would score {evidence.majority_rate:.1%}")
    if evidence.never_seen:
        seen = evidence.never_seen
        console.print(
            f"answers that occur in no training row ({seen.n}): base {seen.base:.1%}, tuned {seen.candidate:.1%}"
        )
    console.print("\n[bold]Examples, chosen by a fixed seed:")
    for row in random.Random(17).sample(rows, min(_EXAMPLES, len(rows))):
        mark = Text("✓ ", "green") if row["candidate_correct"] else Text("✗ ", "red")
        console.print(mark, Text(row["question"], "dim"), sep="")
        console.print(
            Text.assemble("    base: ", (_short(row["base_answer"]), "red"), "   tuned: ", row["candidate_answer"])
        )
        if not row["candidate_correct"]:
            console.print(Text.assemble("    right: ", row["target"]))


def _holdout_rows(store: "Store", samples: bytes, submission: "Submission") -> list[dict[str, Any]]:
    """Scored holdout rows with the question they answer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    holdout = api.dataset_report(submission.dataset, store=store).artifact.read("holdout.parquet")
    questions = {
        row["id"]: row["messages"][0]["content"] for row in pq.read_table(pa.BufferReader(holdout)).to_pylist()
    }
    return [
        {**row, "question": questions[row["item_id"]].replace("\n\n", "  —  ")}
        for row in pq.read_table(pa.BufferReader(samples)).to_pylist()
    ]


def _share(rows: list[dict[str, Any]], who: str) -> str:
    return f"{sum(bool(row[f'{who}_correct']) for row in rows) / len(rows):.1%}"


def _short(answer: object) -> str:
    text = " ".join(str(answer).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
