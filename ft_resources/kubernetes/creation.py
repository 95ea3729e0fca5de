"""Create an attempt's objects idempotently; a refusal becomes an error that says who can fix it."""

from ft_resources.errors import NoRoomYet, UserError, WorkFailed
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs, network_policies, services
from ft_resources.kubernetes.objects import Object

_PLURALS = {"Service": services, "NetworkPolicy": network_policies}
_FULL = ("exceeded quota", "status unknown for quota")
"""What the server says in a 403 of quotas: of one that is used up, and of one that it has not counted yet."""
_NO_RIGHT, _ENDS = " cannot create resource ", "being terminated"
"""And of RBAC, and of a namespace that is being deleted."""
_SAME = (names.FINGERPRINT, names.ATTEMPT, names.TENANT, names.STORE)


def create_job(api: Api, namespace: str, job: Object) -> Object:
    """Create the Job, or return it if it exists. Raises UserError if its name belongs to another Job, NoRoomYet if the
    namespace's quota is full."""
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
    """Create a Service or NetworkPolicy that a Job needs, unless it exists. Raises like ``create_job``."""
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
    if refusal.code == 401:
        remedy = "Renew the token or kubeconfig of the platform's service account; this says nothing about its rights."
        return WorkFailed(f"the cluster does not accept our credentials ({refusal})", where=namespace, remedy=remedy)
    if refusal.code == 403 and any(said in refusal.message for said in _FULL):
        remedy = "Wait until other work of the tenant has ended, or have the namespace's ResourceQuota raised."
        return NoRoomYet(f"the quota of namespace {namespace} is full ({refusal})", where=namespace, remedy=remedy)
    create = "Create the tenant's namespace, its objects and the right to launch there first (docs/start/cluster.md)."
    if refusal.code == 403 and _NO_RIGHT in refusal.message:
        # Rights come before existence: who has none in a namespace is not told whether it exists.
        what = f"the cluster has no namespace {namespace}, or we have no right in it ({refusal})"
        return WorkFailed(what, where=namespace, remedy=create)
    if refusal.code == 404 or (refusal.code == 403 and _ENDS in refusal.message):
        what = f"the cluster has no namespace {namespace}" + (" any more" if refusal.code == 403 else "")
        return WorkFailed(what, where=namespace, remedy=create)
    if refusal.code == 403:
        remedy = "A policy of the cluster refuses it: its words say which. This is for the platform's administrators."
        return WorkFailed(f"the cluster does not allow this Job ({refusal})", where=namespace, remedy=remedy)
    remedy = "This is for the platform's administrators: correct the cluster's settings file."
    return WorkFailed(f"the cluster refuses the Job ({refusal})", where=namespace, remedy=remedy)
