"""The gates: pure functions from evidence and thresholds to verdicts. They fail closed.

A verdict is ``pass`` only if the evidence exists, belongs to exactly this candidate, and shows what is required;
docs/explanation/gates.md has the formulas. ``settings.catalogue.gates`` lists them.
"""

from collections.abc import Iterable, Sequence

from ft_assets.settings.catalogue.gates import GATES, WAIVABLE
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.ungated import NO_GATES, NoGates
from ft_assets.workers.evals.evidence import Measured
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.lazy import load


def judge(
    evidence: Measured, gates: GateSettings | NoGates, *, expected_fingerprint: str, suites: Sequence[str]
) -> list[Verdict]:
    """One verdict for each of ``GATES``.

    Args:
        expected_fingerprint: of this candidate's eval report; other evidence is stale.
        suites: keys of the suites that must have been scored.
    """
    if evidence.fingerprint != expected_fingerprint:
        return refuse(
            f"the evidence belongs to another eval report ({evidence.fingerprint[:12]}, "
            f"not {expected_fingerprint[:12]}); materialize eval_report for this pair"
        )
    if gates == NO_GATES:
        return [Verdict(gate=gate, outcome="not required", reason="the recipe has no gates") for gate in GATES]
    return [
        load(gate.verdict)(*gate.measure(evidence, getattr(gates, gate.setting), suites)) for gate in GATES.values()
    ]


def refuse(reason: str) -> list[Verdict]:
    """Every gate fails for one reason, such as unreadable evidence."""
    return [Verdict(gate=gate, outcome="fail", reason=reason) for gate in GATES]


def passed(verdicts: Iterable[Verdict]) -> bool:
    """Whether every gate has a verdict and none blocks: pass, not required, or inconclusive and waived.

    False for a result without gates, which ``unjudged`` is for.
    """
    found = list(verdicts)
    waived_wrongly = any(verdict.waiver is not None and verdict.gate not in WAIVABLE for verdict in found)
    required = {gate.name for gate in GATES.values() if gate.always}
    always = {verdict.gate for verdict in found if verdict.outcome != "not required"} >= required
    complete = {verdict.gate for verdict in found} == set(GATES)
    return complete and always and not waived_wrongly and all(verdict.lets_through for verdict in found)


def unjudged(verdicts: Iterable[Verdict]) -> bool:
    """Whether the evidence was read and no gate was required of it: what ``gates: none`` gives."""
    found = list(verdicts)
    return {verdict.gate for verdict in found} == set(GATES) and all(v.outcome == "not required" for v in found)
