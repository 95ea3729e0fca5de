"""The state of a curated version as an asset check of its partition.

It blocks what would be made of a held version in the same run. What keeps it from being used anywhere else is
``identity``, which asks for the approval wherever something is made of the version.
"""

from collections.abc import Iterator

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.identity.review import Review, review_of
from ft_assets.graph.partitions import dataset_check, dataset_partitions
from ft_assets.graph.shown_checks import show_checks
from ft_assets.graph.told import told
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import HeldForReview, MissingInput

REVIEW = "review"
_DESCRIPTION = "The version was accepted by curation or approved by a person."


@dg.multi_asset_check(specs=[dataset_check("dataset", REVIEW, _DESCRIPTION, blocking=True)])
@told
def dataset_review(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads curation's reasons for a hold, and the approval if there is one. A missing record is a fail. Raises
    HeldForReview for a held version once that is shown."""
    yield partition_verdict(store.artifacts, context.partition_key)
    identity.approved_dataset(store.artifacts, context.partition_key)


def report_review(instance: dg.DagsterInstance, artifacts: Artifacts, dataset_key: str) -> bool:
    """Report the version's current review to Dagster; False if the check must wait for the partition's next run.

    For display only: the store decides what may be used. Dagster takes none for a partition that it does not know.
    """
    if not instance.has_dynamic_partition(dataset_partitions.name or "", dataset_key):
        return False
    return show_checks(instance, [partition_verdict(artifacts, dataset_key)], dataset_key)


def partition_verdict(artifacts: Artifacts, dataset_key: str) -> dg.AssetCheckResult:
    """The check's result: the reasons if the version is held, and who approved it if anybody did."""
    try:
        return _verdict(review_of(artifacts, dataset_key), dataset_key)
    except (MissingInput, HeldForReview) as error:
        return _result(passed=False, description=error.what)


def _verdict(review: Review, dataset_key: str) -> dg.AssetCheckResult:
    metadata: dict[str, dg.MetadataValue] = {"state": dg.MetadataValue.text(review.state)}
    if review.reasons:
        metadata["reasons"] = dg.MetadataValue.md("\n".join(f"- {reason}" for reason in review.reasons))
    if review.record:
        metadata |= {
            "approved_by": dg.MetadataValue.text(review.record.actor),
            "approved_at": dg.MetadataValue.text(review.record.at),
            "note": dg.MetadataValue.text(review.record.note),
        }
        description = f"approved by {review.record.actor}: {review.record.note}"
    elif review.reasons:
        description = f"held: {' '.join(review.reasons)} To continue: ft dataset approve {dataset_key} --note TEXT"
    else:
        description = "accepted"
    return _result(passed=review.state != "held", description=description, metadata=metadata)


def _result(
    *, passed: bool, description: str, metadata: dict[str, dg.MetadataValue] | None = None
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key="dataset",
        check_name=REVIEW,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=description,
        metadata=metadata or {},
    )
