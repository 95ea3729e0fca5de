"""Create an attempt's objects idempotently; a refusal becomes an error that says who can fix it."""

from ft_resources.errors import UserError, WorkFailed
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs, network_policies, services
from ft_resources.kubernetes.objects import Object

_PLURALS = {"Service": services, "NetworkPolicy": network_policies}
_SAME = (names.FINGERPRINT, names.ATTEMPT, names.TENANT, names.STORE)


def create_job(api: Api, namespace: str, job: Object) -> Object:
    """Create the Job, or return it if it exists. Raises UserError if its name belongs to another Job."""
    if (created := _create(api, jobs(namespace), namespace, job)) is not None:
        return created
    name = job["metadata"]["name"]
    found = api.get(jobs(namespace, name))
    wanted = job["metadata"]["labels"]
    labels = found["metadata"].get("labels", {}) if found else {}
    if found is None or any(labels.get(label) != wanted[label] for label in _SAME):
        raise UserError(
            "the name of this attempt's Job is used by another Job",
            where=f"{namespace}/{name}",
            remedy="Find its owner with kubectl; two platforms need two stores and two sets of namespaces.",
        )
    return found


def create_beside(api: Api, namespace: str, manifest: Object) -> None:
    """Create a Service or NetworkPolicy that a Job needs, unless it exists."""
    _create(api, _PLURALS[manifest["kind"]](namespace), namespace, manifest)


def _create(api: Api, path: str, namespace: str, manifest: Object) -> Object | None:
    """The new object; None if its name is taken."""
    try:
        return api.create(path, manifest)
    except ApiRefusal as refusal:
        if refusal.code == 409:
            return None
        raise _explained(refusal, namespace) from refusal


def _explained(refusal: ApiRefusal, namespace: str) -> UserError:
    """Turn a refusal into an error for the person who can fix it."""
    if refusal.code in (401, 403):
        remedy = (
            "Allow the platform's service account to create Jobs in this namespace; if a quota refused it, wait or "
            "raise the quota."
        )
        return WorkFailed(f"the cluster does not allow a Job to be created ({refusal})", where=namespace, remedy=remedy)
    if refusal.code == 404:
        remedy = "Create the tenant's namespace and its objects first (docs/how-to/cluster.md)."
        return WorkFailed(f"the cluster has no namespace {namespace}", where=namespace, remedy=remedy)
    remedy = "This is for the platform's administrators: correct the cluster's settings file."
    return WorkFailed(f"the cluster refuses the Job ({refusal})", where=namespace, remedy=remedy)
