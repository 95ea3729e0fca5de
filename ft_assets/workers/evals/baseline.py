"""The work of ``baseline_report``: the base's scores on the recipe's suites."""

import json
from typing import Any

from ft_resources.worker_context import WorkContext, WorkResult


def score_baseline(context: WorkContext) -> WorkResult:
    """Score the base model on every suite, and keep each item's result.

    Params: ``settings`` (``seed``, ``limit``, ``chat_template``). Inputs: ``base``, ``suite:<key>`` each,
    ``shown:<key>`` each and ``safety:<key>``. Leaves ``report.json`` (``scores``: suite to metric, value and n; of a
    safety suite ``safety``: ``refusals`` and ``over_refusals`` to value and n), ``samples/<suite>.parquet`` (columns
    ``item_id``, ``score`` and ``answer``), ``samples/<suite>-shown.parquet`` of prompts without a right answer
    (``item_id``, ``answer``) and of a safety suite ``samples/refusals.parquet`` and ``samples/over_refusals.parquet``
    (also ``answer``).
    """
    from ft_assets.checkpoints.libraries import keep_offline
    from ft_assets.evals.fan_out import SuiteJob, score_suites
    from ft_assets.evals.model import load_model
    from ft_assets.evals.suite_comparison import asked_suites, write_base

    settings = context.params["settings"]
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
        seed=settings["seed"],
        limit=settings["limit"],
        template=settings["chat_template"],
        engine=engine,
    )
    results = score_suites(context, model, job)
    scores = write_base(context.output, results)
    found = {"scores": scores, **_count_refusals(context, model)}
    (context.output / "report.json").write_text(json.dumps(found, indent=2, sort_keys=True))
    return WorkResult(folder=context.output, facts=found)


def _count_refusals(context: WorkContext, model: Any) -> dict[str, Any]:
    from ft_assets.evals.safety import answer_safety, write_base

    settings = context.params["settings"]
    answers = answer_safety(
        context, model, template=settings["chat_template"], limit=settings["limit"], seed=settings["seed"]
    )
    return {"safety": write_base(context.output, answers)} if answers else {}
