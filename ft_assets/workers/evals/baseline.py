"""The work of ``baseline_report``: the base's scores on the recipe's suites."""

import json
from typing import Any

from ft_assets.workers.evals import safety
from ft_assets.workers.evals.fan_out import SuiteJob, score_suites
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.evals.suite_comparison import asked_suites, write_base
from ft_assets.workers.libraries import keep_offline
from ft_resources.worker_context import WorkContext, WorkResult


def score_baseline(context: WorkContext) -> WorkResult:
    """Score the base model on every suite, and keep each item's result.

    Params: ``settings`` (``seed``, ``limit``, ``chat_template``). Inputs: ``base``, ``suite:<key>`` each,
    ``shown:<key>`` each and ``safety:<key>``. Writes ``report.json`` (``scores``: suite to metric, value and n; for a
    safety suite ``safety``: ``refusals`` and ``over_refusals`` to value and n), ``samples/<suite>.parquet`` (columns
    ``item_id``, ``score`` and ``answer``), ``samples/<suite>-shown.parquet`` for prompts without a right answer
    (``item_id``, ``answer``), and for a safety suite ``samples/refusals.parquet`` and ``samples/over_refusals.parquet``
    (also ``answer``).
    """
    settings = context.params["settings"]
    seed, limit, template = settings["seed"], settings["limit"], settings["chat_template"]
    keep_offline()
    context.progress("loading the base and the suites")
    folder = context.folder("base")
    engine = settings.get("engine", "transformers")
    model = load_model(folder, engine=engine)
    job = SuiteJob(
        spec=context.spec,
        base=folder,
        weights=None,
        full=False,
        suites={key: suite.folder(context.scratch / "inputs") for key, suite in asked_suites(context).items()},
        seed=seed,
        limit=limit,
        template=template,
        engine=engine,
    )
    found: dict[str, Any] = {"scores": write_base(context.output, score_suites(context, model, job))}
    answers = safety.answer_safety(context, model, template=template, limit=limit, seed=seed)
    if answers:
        found["safety"] = safety.write_base(context.output, answers)
    (context.output / "report.json").write_text(json.dumps(found, indent=2, sort_keys=True))
    return WorkResult(folder=context.output, facts=found)
