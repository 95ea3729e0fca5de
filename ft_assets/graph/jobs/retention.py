"""The job that removes artifacts that nothing leads to any more; ``leftovers_sensor`` asks for it once a day."""

import dagster as dg

from ft_assets import api
from ft_assets.graph.told import told
from ft_resources.dagster_resources import StoreResource


@dg.op(description="Mark unreferenced artifacts, and remove those marked for longer than the retention period.")
@told
def remove_unreferenced(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[int]:
    """Reads every manifest and record, which takes longer on a large store than a sensor may."""
    done = api.collect_unreferenced(store=store.store)
    for address in done.addresses:
        context.log.info(f"removed {address}: unreferenced")
    counts = {"removed": len(done.addresses), "objects": done.objects, "marked": len(done.plan.mark)}
    return dg.Output(len(done.addresses), metadata={**counts, "waiting": len(done.plan.waiting)})


@dg.job(
    name="collect_unreferenced",
    executor_def=dg.in_process_executor,
    description="Remove unreferenced artifacts that can be recreated.",
)
def collect_unreferenced_job() -> None:
    remove_unreferenced()
