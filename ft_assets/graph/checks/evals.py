"""The gates' verdicts as blocking asset checks of the partition at hand: a rejected pair's run ends before ``adapter``.

The checks are the door and ``adapter`` is the lock: it judges again for itself, however it was launched.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from ft_assets.control import identity
from ft_assets.graph.checks.rollouts import without_adapter
from ft_assets.graph.glue import asked_gates, pair_of
from ft_assets.graph.partitions import pair_check
from ft_assets.graph.shown_checks import show_checks
from ft_assets.graph.told import told
from ft_assets.settings.catalogue.gates import GATES
from ft_assets.workers.adapters.rejection import rejected
from ft_assets.workers.evals.gates import refuse
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import in_words, judge_candidate
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import MissingInput


def partition_verdicts(artifacts: Artifacts, partition_key: str, gates: Sequence[str] = ()) -> list[Verdict]:
    """The verdicts on a pair with its current inputs; without a report, every gate fails.

    ``gates`` are those that the run's submission asks for beyond the recipe's.
    """
    dataset_key, recipe_key = pair_of(partition_key)
    try:
        request = identity.adapter_request(artifacts, dataset_key, recipe_key, gates)
    except MissingInput as error:
        return refuse(error.what)
    return judge_candidate(artifacts, request.inputs, request.params)


@dg.multi_asset_check(
    specs=[pair_check("eval_report", gate.name, gate.claim, blocking=True) for gate in GATES.values()],
    # So that the UI can judge again without an evaluation, such as after a waiver.
    can_subset=True,
)
@told
def eval_gates(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Judges the evidence in this partition's report, gate by gate. Raises GateRejected once all are shown."""
    selected = {key.name for key in context.selected_asset_check_keys}
    verdicts = partition_verdicts(store.artifacts, context.partition_key, asked_gates(context, store))
    judged = [verdict for verdict in verdicts if verdict.gate in selected]
    yield from gate_results(judged)
    if not all(verdict.lets_through for verdict in judged):
        show_checks(context.instance, without_adapter(), context.partition_key)
        raise rejected(judged, context.partition_key)


def gate_results(verdicts: Sequence[Verdict]) -> Iterator[dg.AssetCheckResult]:
    """The verdicts as Dagster shows them: one check for each gate.

    Dagster calls a check without a result skipped or failed. So a gate that nobody asked for passes, and its
    description says that it is not required.
    """
    for verdict in verdicts:
        yield dg.AssetCheckResult(
            asset_key="eval_report",
            check_name=verdict.gate,
            passed=verdict.lets_through,
            severity=dg.AssetCheckSeverity.ERROR,
            description=f"{verdict.outcome}{', waived' if verdict.waiver else ''}: {in_words(verdict)}",
            metadata={
                "outcome": verdict.outcome,
                **{
                    # Six digits: 14.8 points, and not 14.800000000000002.
                    f"{subject}: {name}".replace("_", " "): float(f"{value:.6g}") if isinstance(value, float) else value
                    for subject, numbers in verdict.numbers.items()
                    for name, value in numbers.items()
                },
            },
        )
