"""Why a submission is queued, as far as the store knows: earlier submissions, and who launches its work."""

from dataclasses import replace

from ft_assets.control.submissions.status import State, Status
from ft_assets.records.submissions import Driver, Submission, open_of_tenant
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import UserError
from ft_resources.store import Store

_LAUNCHED: dict[Driver, str] = {
    "sensor": "a running Dagster starts it",
    "caller": "the process that submitted it starts it",
    "run": "its Dagster run has not started",
}


def with_place(store: Store, submission: Submission, status: Status) -> Status:
    """``status``, with a reason where it is queued and none is known; between two pieces of work the reason is the
    tenant's limit, if that may be it. Only submissions of the same tenant are counted."""
    waits_between = status.detail == "next"
    if not waits_between and (status.state is not State.QUEUED or status.detail):
        return status
    earlier = sum(each.created_at < submission.created_at for each in open_of_tenant(store, submission.tenant))
    limit = _limit(submission.tenant)
    limited = limit is not None and earlier >= limit
    if waits_between and not limited:
        return status
    said = []
    if earlier:
        are = "submission is" if earlier == 1 else "submissions are"
        said.append(f"{earlier} earlier {are} open" + (f" (limit: {limit} concurrent trainings)" if limited else ""))
    if not waits_between:
        said.append(_LAUNCHED[submission.driver])
    return replace(status, detail=f"waits: {'; '.join(said)}")


def _limit(tenant: str) -> int | None:
    """Trainings that the tenant may have at once; None for no limit, and where the tenants file cannot be read, which
    those tell who launch."""
    try:
        return load_tenants().quota_of(tenant).concurrent
    except UserError:
        return None
