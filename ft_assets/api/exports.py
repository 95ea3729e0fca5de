"""Exports: an adapter and its base as one model, for engines outside the platform."""

from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.adapters import copy_out, find_adapter
from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_dataset, own_recipe
from ft_assets.control import identity
from ft_assets.control.exports.judging import judge_export, require_as_good
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import without_gates
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An export: the artifact, its own evaluation and the verdicts on it; of an ungated result, neither of these.

    ``served_on``: the GPUs that an engine needs for it; empty where any machine does.
    """

    artifact: Artifact
    report: Artifact | None
    verdicts: tuple[Verdict, ...]
    served_on: str


def export(
    source: str,
    target: Path | str,
    *,
    format: str = "merged",
    store: Store | None = None,
    actor: str = "",
    launcher: Launcher | None = None,
    tenants: TenantsFile | None = None,
) -> Exported:
    """Export an adapter to a folder that does not exist yet: make it if necessary, judge it, and copy it.

    ``source`` is an adapter's address, a line, or a pair (``DATASET|RECIPE``). The export is evaluated on the adapter's
    own suites and holdout, and released only if it passes the adapter's gates again and is not worse than it. It runs
    in workers, and this waits for them. Raises UserError for an unknown source or format, a folder that exists and an
    adapter that cannot be exported, and GateRejected for an export that is worse than its adapter.
    """
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    artifacts, wanted = Artifacts(store), _format(format)
    # Refused now, and not after an evaluation.
    if Path(target).exists():
        raise UserError("this path exists already", where=str(target), remedy="Name a folder that does not exist yet.")
    adapter = _source(artifacts, source)
    execution, actor = Execution(store=store, launcher=launcher or make_launcher()), actor_or_user(actor)
    for step in wanted.steps:
        made = execution.run(identity.export_request(artifacts, adapter, step), actor=actor).artifact
    report, verdicts = None, list[Verdict]()
    if not without_gates(adapter.manifest.identity["params"]):
        request = identity.reevaluation_request(artifacts, adapter, made, tenants)
        report = execution.run(request, actor=actor).artifact
        verdicts = judge_export(artifacts, adapter, made, report)
        require_as_good(verdicts, str(made.address))
    copy_out(made, target)
    return Exported(artifact=made, report=report, verdicts=tuple(verdicts), served_on=wanted.served_on)


def _format(name: str) -> ExportFormat:
    if name not in EXPORTS:
        raise UserError(
            f"there is no export format {name!r}", where="format", remedy=f"Name one of these: {', '.join(EXPORTS)}."
        )
    return EXPORTS[name]


def _source(artifacts: Artifacts, source: str) -> Artifact:
    if "|" not in source:
        return find_adapter(source, store=artifacts.store)
    dataset, _, recipe = source.partition("|")
    return identity.exported(artifacts, own_dataset(dataset), own_recipe(artifacts.store, recipe))
