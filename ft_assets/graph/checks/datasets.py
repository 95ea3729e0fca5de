"""The state of a curated version as a blocking asset check of its partition.

It shows why a version is held and stops the run; what keeps a held version from being used is ``identity``, which
asks for the approval wherever something is made of the version.
"""

from collections.abc import Iterator

import dagster as dg
from sqlalchemy.exc import IntegrityError

from ft_assets.datasets.review import Review, review_of
from ft_assets.partitions import dataset_check, dataset_partitions
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import HeldForReview, MissingInput

REVIEW = "review"
_DESCRIPTION = "The version may be used: nothing holds it, or a person has looked at it and approved it."


@dg.multi_asset_check(specs=[dataset_check("dataset", REVIEW, _DESCRIPTION)])
def dataset_review(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the reasons that curation left and the approval, if there is one; what is not there fails."""
    yield partition_verdict(store.artifacts, context.partition_key)


def report_review(instance: dg.DagsterInstance, artifacts: Artifacts, dataset_key: str) -> bool:
    """Show in Dagster how the version stands now; False where the check has to wait for the partition's next run.

    Nothing but a picture: what may be used is decided by the store. Dagster 1.13 takes one such evaluation of a
    partition that belongs to no run, and none of a partition that it does not know.
    """
    if not instance.has_dynamic_partition(dataset_partitions.name or "", dataset_key):
        return False
    result = partition_verdict(artifacts, dataset_key)
    evaluation = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey("dataset"),
        check_name=REVIEW,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
        blocking=True,
        partition=dataset_key,
    )
    try:
        instance.report_runless_asset_event(evaluation)
    except IntegrityError:
        return False
    return True


def partition_verdict(artifacts: Artifacts, dataset_key: str) -> dg.AssetCheckResult:
    """The check's result: reasons where the version is held, who let it through where somebody did."""
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
        description = f"held: {' '.join(review.reasons)} Go on with: ft dataset approve {dataset_key} --note TEXT"
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
