"""Whether a rollout's judge may compare its two adapters, by the rules for an evaluation's judges."""

from collections.abc import Iterable

from ft_assets.control.lines.lines import PromotionRecord
from ft_assets.records.neutrality import names_of_base, require_neutral, writers_of
from ft_assets.settings.judge_hosts import allowed_host
from ft_assets.settings.line_settings import LineSettings
from ft_assets.settings.shadow_judge import ShadowJudge
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError


def require_judge(
    artifacts: Artifacts, judge: ShadowJudge, tenants: TenantsFile, sides: Iterable[PromotionRecord]
) -> None:
    """Raise UserError for a host or key that the platform does not allow, for a judge of the family of an adapter's
    base or of who wrote its data, and where no conversation is kept, so that there would be nothing to judge.

    Args:
        sides: the candidate's record and the incumbent's.
    """
    for side in sides:
        tenant, where = side.line.partition(".")[0], f"line {side.line}: rollouts.judge"
        if not tenants.settings_of(side.line).traffic.keep:
            raise UserError(
                "the line keeps no conversations, so a judge would have no answers to compare",
                where=where,
                remedy="Let it keep them in tenants.yaml (lines: traffic: {keep: true}), or name no judge.",
            )
        report = artifacts.get(Address.parse(side.eval_report.address))
        dataset = artifacts.get(Address.parse(report.manifest.inputs["dataset"].address))
        base = artifacts.get(Address.parse(side.base.address))
        try:
            allowed_host(judge.model, tenants.judge_hosts_of(tenant))
            require_neutral(judge.model, (), base=names_of_base(base), written_by=writers_of(artifacts, dataset))
        except UserError as error:
            raise UserError(error.what, where=where, remedy=error.remedy) from error


def withdrawn(judge: ShadowJudge, settings: LineSettings) -> str:
    """Why the judge of a rollout is not allowed any more; empty if it is."""
    named, why = settings.rollouts.judge, ""
    if not settings.traffic.keep:
        why = "the line no longer keeps conversations"
    elif named is None or named.model.name != judge.model.name:
        why = f"the line no longer names {judge.model.name}"
    return why and f"{why}. To continue without it, cancel the rollout and start one"
