"""Evidence from copied requests, which candidate and incumbent both answered."""

from collections.abc import Mapping, Sequence

from ft_assets.control.rollouts.evidence import ERROR, Evidence, evidence_of
from ft_assets.records.shadow_verdicts import ShadowVerdict
from ft_assets.records.shadows import AnswerSeen, ShadowPair
from ft_assets.settings.rollout_settings import Kind

SHARE = 0.5
"""Share of ``ERROR`` for the shadow stage of a rollout; the later stages have the rest."""


def weigh_pairs(
    pairs: Sequence[ShadowPair],
    verdicts: Sequence[ShadowVerdict],
    margins: Mapping[Kind, float],
    latency_limit_s: float | None,
) -> list[Evidence]:
    """The evidence of each kind with a margin, from pairs and a judge's verdicts in order of time. A pair counts for a
    kind if that is known of both answers, and for the judge if it gave a verdict."""
    found = []
    for kind, margin in margins.items():
        ours = [verdict.win for verdict in verdicts if verdict.win is not None] if kind == "judge" else []
        theirs = [1.0 - win for win in ours]
        for pair in pairs if kind != "judge" else ():
            candidate = good_answer(pair.candidate_answer, kind, latency_limit_s)
            incumbent = good_answer(pair.incumbent_answer, kind, latency_limit_s)
            if candidate is not None and incumbent is not None:
                ours.append(candidate)
                theirs.append(incumbent)
        differences = [first - second for first, second in zip(ours, theirs, strict=True)]
        error = ERROR * SHARE / len(margins)
        found.append(evidence_of(kind, margin, ours, theirs, differences, in_stage=len(ours), error=error))
    return found


def good_answer(seen: AnswerSeen, kind: Kind, latency_limit_s: float | None) -> float | None:
    """How good an answer is, from 0 to 1; None where that is not known."""
    if kind == "latency":
        return float(latency_limit_s is None or seen.seconds <= latency_limit_s)
    if kind == "refusal":
        return None if seen.failed else float(not seen.refused)
    return None if seen.valid is None else float(seen.valid)
