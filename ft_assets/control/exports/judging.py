"""Whether an export is as good as its adapter: gated again, and compared with the adapter's own results."""

from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.adapters.rejection import reasons
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdict import EPSILON, Verdict
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import GateRejected

SAME = "as_the_adapter"
"""Name of the verdict that compares an export with its adapter."""


def judge_export(artifacts: Artifacts, adapter: Artifact, exported: Artifact, report: Artifact) -> list[Verdict]:
    """The verdicts on an export, from its own evaluation ``report``: those of the adapter's gates, and ``SAME``.

    If a gate was inconclusive for the adapter and waived by a person, it is waived here too if it is inconclusive
    again. ``SAME`` compares the results of both item by item.
    """
    theirs, params = adapter.manifest.inputs, adapter.manifest.identity["params"]
    before = {each.gate: each for each in judge_candidate(artifacts, theirs, params)}
    inputs = {"checkpoint": exported.ref, "base": theirs["base"], "eval_report": report.ref}
    found = [
        each.model_copy(update={"waiver": each.waiver or before[each.gate].waiver})
        if each.outcome == "inconclusive"
        else each
        for each in judge_candidate(artifacts, inputs, params)
    ]
    return [*found, _same(artifacts, adapter, report)]


def require_as_good(verdicts: list[Verdict], where: str) -> None:
    """Raise GateRejected unless every gate let the export through and it is as good as the adapter."""
    gates = [each for each in verdicts if each.gate != SAME]
    if passed(gates) and all(each.lets_through for each in verdicts):
        return
    raise GateRejected(
        f"the export is not as good as the adapter, so it is not released\n{reasons(verdicts)}",
        where=where,
        remedy="Use the adapter with its base, as evaluated; or export it with more bits: another quantised format, "
        "or merged. If a merged model is worse, use a base in a wider dtype, such as bfloat16 or float32, "
        "which keeps small changes of weights.",
    )


def _same(artifacts: Artifacts, adapter: Artifact, report: Artifact) -> Verdict:
    """Whether no score of the export is worse than the adapter's by more than the recipe lets a candidate lose.

    Unlike a new candidate, it does not fail for too few samples: a merged model's logits are proved
    (``workers.exports.equality``), a quantised one's are measured, so only a loss that the items do show matters.
    """
    from ft_assets.control.lines.incumbent import compare_reports

    own = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    gates = GateSettings.model_validate_json(canonical_json(adapter.manifest.identity["params"]["gates"]))
    compared = compare_reports(own, report, gates, BenchmarkRegressionGate())
    figures = compared.numbers.values()
    kept = bool(figures) and all(each["drop_points"] <= each["max_drop_points"] + EPSILON for each in figures)
    outcome = "pass" if kept else "fail"
    return compared.model_copy(update={"gate": SAME, "outcome": outcome})
