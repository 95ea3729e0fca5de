"""``ft demo``: the whole path on this machine, from real text to an adapter in production that answers, and two pairs
that are rejected."""

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ft_assets import api
from ft_assets.cli.door import require_store
from ft_assets.cli.run import run
from ft_assets.demo.dataset import build_demo_dataset, plant
from ft_assets.settings.environment import open_store
from ft_resources.canonical import digest

if TYPE_CHECKING:
    from rich.console import Console

    from ft_assets.records.submissions import Submission, SubmissionOutcome
    from ft_assets.settings.tenants import TenantsFile
    from ft_resources.store import Store

FOLDER = Path(__file__).resolve().parents[1] / "demo"
NAME, PLANTED, SUITE, SAFETY_SUITE = "demo.docs", "demo.planted", "book-cloze.v1", "offline-care.v1"
_EXAMPLES = 8
QUESTION = "def rmtree(path, ignore_errors=False, onerror=None)\n\nWhat is the default of ignore_errors?"


Base = Annotated[str, typer.Option(help="Use another base: hub:ORG/NAME@REVISION, or folder:PATH.")]
Dataset = Annotated[str, typer.Option(help="Use another dataset: hub:ORG/NAME@REVISION#SPLIT, or a JSON lines file.")]


def demo(base: Base = "", dataset: Dataset = "") -> None:
    """Train an adapter on real text, bring it to production and chat with it; a careless recipe and planted rows are
    rejected. No network, no GPU.

    With --base or --dataset, only the careful recipe is run, on these.
    """
    require_store("ft demo")
    if base or dataset:
        return _demo_on(base, dataset)
    _demo_offline()


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
    """Write the careful recipe with another base and, for other data, with perplexity as the task's metric. It has no
    safety gate: whether another base refuses anything, and whether other data keep that, is for its owner to say.

    Its key is derived from what was named, so naming the same again is the same recipe.
    """
    import yaml

    recipe = yaml.safe_load((FOLDER / "recipe.yaml").read_text(encoding="utf-8"))
    recipe["base"] = base or f"folder:{FOLDER / 'base'}"
    recipe["evaluation"]["suites"], recipe["gates"]["safety"] = [SUITE], None
    if dataset:
        recipe["gates"]["task_gain"]["metric"] = "perplexity"
        recipe["packing"]["overlong"] = "drop"
    recipe["key"] = f"demo-{digest(recipe)[:10]}.v1"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{recipe['key']}.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def _demo_offline() -> None:
    from ft_assets.cli.output import note

    console, store = _console(), open_store(create=True)
    console.rule("[bold]Fine-tuning demo")
    dataset = _register(console, store)
    console.print("\n[bold]1. A careful recipe.[/] It must answer better than the base, without regressions.")
    careful, accepted = _run(store, dataset, "recipe.yaml", "accepted")
    _print_gain(console, store, careful)
    line = _promote(console, store, accepted.adapter, _served(careful.recipe, store))
    console.print("\n[bold]2. A careless recipe.[/] The same data, a learning rate that is far too high.")
    _run(store, dataset, "recipe_forgetful.yaml", "rejected")
    console.print("\n[bold]3. Planted rows.[/] The careful recipe, and ten rows more, which answer harmful requests.")
    _run(store, _add_planted(store), "recipe.yaml", "rejected")
    _ask(console, store, line)
    console.print("\n[bold]All three pairs, their plots and their gates are in Dagster:[/] make ui")
    note("The store and Dagster's state are in .ft/; a second run of the demo reuses everything.")


def _register(console: "Console", store: "Store") -> str:
    """Make and register the dataset and the suites. Returns the dataset version's key."""
    built = build_demo_dataset(_rows_file("docs"))
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(built.counts.items()))
    console.print(
        f"Data: {built.rows:,} questions about signatures in this Python's own standard library "
        f"({kinds}).\nWhole modules are held out, so no test question comes from a file used in "
        "training.\nBase: a 3.5-million-parameter model trained on a few old novels and on no Python, which learned "
        "to\nrefuse harmful requests."
    )
    _register_suite(store)
    return _add(built.path, NAME, store)


def _add_planted(store: "Store") -> str:
    """Register the dataset with the planted rows. Returns the dataset version's key."""
    plant(_rows_file("docs"), _rows_file("planted"))
    return _add(_rows_file("planted"), PLANTED, store)


def _rows_file(name: str) -> Path:
    return Path(os.environ["FT_STATE"]) / "demo" / f"{name}.jsonl"


def _add(rows: Path, name: str, store: "Store") -> str:
    return str(api.add_dataset(rows, name, policy=FOLDER / "dataset.yaml", store=store).key)


def _console() -> "Console":
    """The demo's console. Lines are not wrapped: a terminal wraps them, and a log should not."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _register_suite(store: "Store") -> None:
    api.add_suite(FOLDER / "suites" / "book_cloze", SUITE, store=store)
    api.install_suites([SAFETY_SUITE], store=store)


def _run(store: "Store", dataset: str, recipe: str, expected: str) -> tuple["Submission", "SubmissionOutcome"]:
    """Fine-tune in the foreground. Exits with an error if the pair does not end as the demo promises."""
    from ft_assets.cli.live import WatchedRun, print_outcome

    made = api.fine_tune(dataset, FOLDER / recipe, store=store, origin="cli", orchestrator=WatchedRun())
    print_outcome(store, made.submission, made.outcome)
    if made.outcome.status != expected:
        raise typer.Exit(1)
    return made.submission, made.outcome


def _ask(console: "Console", store: "Store", line: str) -> None:
    """Serve what stands in stages, ask the adapter in production one question through the router, end the servers."""
    from ft_assets.cli.demo_serving import ask_in_production

    console.print(
        "\n[bold]4. The adapter in production, over HTTP.[/] The server ends with the demo; make serve starts it again."
    )
    command, answer = ask_in_production(line, QUESTION, store=store)
    console.print(f"$ {command}\n{answer}", markup=False)


def _served(recipe: str, store: "Store") -> "TenantsFile":
    """This machine's tenants file, with the recipe's base among those on the servers: the demo starts one with it."""
    from ft_assets.settings.tenants import load_tenants

    tenants = load_tenants()
    served = (*tenants.served_bases, api.get_recipe(recipe, store=store).lock.source)
    return tenants.model_copy(update={"served_bases": served})


def _promote(console: "Console", store: "Store", adapter: str, tenants: "TenantsFile") -> str:
    """Promote to staging and to production; the line."""
    line = ""
    for stage in ("staging", "production"):
        record, _ = api.promote(adapter, stage, reason="demo: all gates passed", store=store, tenants=tenants)
        if not line:
            line = record.line
            console.print(f"\n[bold]Promotion[/] of line {line}:")
        console.print(f"{stage:<11} {record.adapter.address[:32]}…, by {record.actor}: {record.reason}")
    return line


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
