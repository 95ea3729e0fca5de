"""Automatic rollouts of the adapter in staging, if a line's settings ask for them."""

from datetime import datetime

from ft_assets.control.lines.auto import ACTOR
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import Decision
from ft_assets.control.lines.proposals import read_proposals
from ft_assets.control.rollouts.asked import Wish, start
from ft_assets.control.rollouts.rollouts import RolloutRecord, read_rollouts
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.tracking import Log


def start_automatic(
    artifacts: Artifacts, line: str, *, tenants: TenantsFile, log: Log, now: datetime
) -> RolloutRecord | None:
    """Start a rollout of the adapter in staging against that in production; None where either is missing, one is open,
    this candidate was rolled out against this incumbent before, however that ended, or a person declined it.

    Raises as ``start``: a check of promotions may refuse it now, and not in a while.
    """
    stages = read_line(artifacts.store, line)
    candidate, incumbent = stages.at("staging"), stages.at("production")
    if candidate is None or incumbent is None or candidate.adapter == incumbent.adapter:
        return None
    known = read_rollouts(artifacts.store, line)
    pairs = [(each.started.candidate, each.started.incumbent) for each in known.rollouts]
    if known.open is not None or (candidate.adapter, incumbent.adapter) in pairs:
        return None
    refused = [
        each.proposal for each in read_proposals(artifacts.store, line) if each.state in ("declined", "withdrawn")
    ]
    if (candidate.adapter, incumbent.adapter.address) in [(each.adapter, each.replaces) for each in refused]:
        return None
    plan = tenants.settings_of(line).rollouts
    wish = Wish(
        candidate=candidate.adapter.address,
        steps=plan.steps,
        minimum=plan.minimum,
        outcomes=plan.outcomes,
        margins={str(kind): margin for kind, margin in plan.margins.items()},
        latency_limit_s=plan.latency_limit_s,
        shadow=plan.shadow,
    )
    reason = f"promoted to staging at {candidate.at}: {candidate.reason}"
    return start(artifacts, line, wish, Decision(actor=ACTOR, reason=reason, tenants=tenants, log=log), now)
