"""Creating an attempt's objects: what is there already is taken as it is, and a refusal is told in words."""

from ft_resources.errors import UserError, WorkFailed
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs, network_policies, services
from ft_resources.kubernetes.objects import Object

_PLURALS = {"Service": services, "NetworkPolicy": network_policies}
_SAME = (names.FINGERPRINT, names.ATTEMPT, names.TENANT, names.STORE)


def create_job(api: Api, namespace: str, job: Object) -> Object:
    """The new Job, or the same one where it is there already. Raises UserError where its name is taken by another."""
    if (created := _create(api, jobs(namespace), namespace, job)) is not None:
        return created
    name = job["metadata"]["name"]
    found = api.get(jobs(namespace, name))
    wanted = job["metadata"]["labels"]
    labels = found["metadata"].get("labels", {}) if found else {}
    if found is None or any(labels.get(label) != wanted[label] for label in _SAME):
        raise UserError(
            "the name of this attempt's Job is taken by another",
            where=f"{namespace}/{name}",
            remedy="Look whose it is with kubectl; two platforms need two stores and two sets of namespaces.",
        )
    return found


def create_beside(api: Api, namespace: str, manifest: Object) -> None:
    """A Service or NetworkPolicy that a Job needs, unless it is there."""
    _create(api, _PLURALS[manifest["kind"]](namespace), namespace, manifest)


def _create(api: Api, path: str, namespace: str, manifest: Object) -> Object | None:
    """The new object; None where its name is taken."""
    try:
        return api.create(path, manifest)
    except ApiRefusal as refusal:
        if refusal.code == 409:
            return None
        raise _explained(refusal, namespace) from refusal


def _explained(refusal: ApiRefusal, namespace: str) -> UserError:
    """A refusal in words for who can do something about it."""
    if refusal.code in (401, 403):
        remedy = "Let the platform's service account create Jobs in this namespace; for a quota, wait or raise it."
        return WorkFailed(f"the cluster does not let a Job be created ({refusal})", where=namespace, remedy=remedy)
    if refusal.code == 404:
        remedy = "Make the tenant's namespace and what belongs into it first (docs/kubernetes.md)."
        return WorkFailed(f"the cluster has no namespace {namespace}", where=namespace, remedy=remedy)
    remedy = "This is for the platform's administrators: correct the cluster's settings file."
    return WorkFailed(f"the cluster refuses the Job ({refusal})", where=namespace, remedy=remedy)
