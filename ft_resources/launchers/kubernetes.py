"""Workers as Jobs of a Kubernetes cluster: one Job for each attempt, named after it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ft_resources.attempts import Attempt, Ending, attempts_at
from ft_resources.errors import ClusterUnavailable, UserError, WorkFailed
from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import Relabel, plan_classes
from ft_resources.kubernetes.api import (
    Api,
    ApiRefusal,
    events,
    jobs,
    network_policies,
    pods,
    priority_classes,
    services,
    workloads,
)
from ft_resources.kubernetes.causes import UNEXPLAINED
from ft_resources.kubernetes.endings import PodEnding, Sight, asks_whether_begun, ending_of
from ft_resources.kubernetes.manifests import owned_by, to_k8s
from ft_resources.kubernetes.objects import Object, ended
from ft_resources.kubernetes.placement import CANCELLED, lost_spot, record_place
from ft_resources.kubernetes.plan import plan_pod
from ft_resources.kubernetes.pod import WORKER
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.waiting import Waiting, why_waiting
from ft_resources.kubernetes.watch import JobWatch
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Refund
from ft_resources.work import WorkSpec

_FIRST_ANSWER_S = 5.0
_LOOK_EVERY_S = 10.0
"""Pods are listed at most so often; beside that a waiting run has one watch."""
_SETTLE_S = 20.0
"""A pod whose worker has said how it ended is given so long to be gone."""
_FORCE_S = 10.0
_PLURALS = {"Service": services, "NetworkPolicy": network_policies}


@dataclass
class _Followed:
    """An attempt's Job as this process knows it."""

    namespace: str
    watch: JobWatch
    pods: list[Object] = field(default_factory=list)
    looked_at: float = float("-inf")
    looked_version: str = ""
    launched: bool = False
    begun: bool = False
    spot: bool = False
    own_image: bool = False
    ending: PodEnding | None = None


class KubernetesLauncher:
    """Starts workers as Jobs. A Job's name follows from its attempt, so any process finds the Job of any attempt."""

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        *,
        module: str = "ft_assets.worker",
        clock: Callable[[], float] = time.time,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._settings, self._api, self._module, self._clock = settings, api, module, clock
        self._look_every_s = look_every_s
        self._followed: dict[str, _Followed] = {}

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        """Create the attempt's Job, or find it there: a request whose answer was lost has created it.

        Raises UserError for hardware that the cluster does not have and for a Job that the API refuses,
        ClusterUnavailable where the API does not answer.
        """
        earlier = [each for each in attempts_at(attempt.store, attempt.address) if each.number < attempt.number]
        plan = plan_pod(
            spec,
            self._settings,
            spot_losses=sum(map(lost_spot, earlier)),
            save_s=max((float(each.progress().get("save_s", 0.0)) for each in earlier), default=0.0),
            module=self._module,
        )
        job, *others = to_k8s(plan)
        created = self._create(plan.namespace, job)
        for manifest in others:
            self._create_beside(plan.namespace, owned_by(manifest, created))
        handle = {"launcher": "kubernetes", "namespace": plan.namespace, "job": plan.name}
        kind = {"spot": plan.spot, "own_image": spec.resources.image is not None}
        attempt.write_launch({**handle, "uid": created["metadata"]["uid"], **kind})

    def state(self, attempt: Attempt) -> LaunchState:
        followed = self._follow(attempt)
        if followed is None:
            return LaunchState.UNKNOWN
        # No news is no evidence of an end: what was launched is taken to run until the API says otherwise.
        unknown = LaunchState.RUNNING if followed.launched else LaunchState.UNKNOWN
        if not followed.watch.wait_answer(_FIRST_ANSWER_S):
            return unknown
        try:
            if followed.watch.last is None:
                if not followed.launched:
                    return LaunchState.UNKNOWN
                # Created after the watch began, perhaps a moment ago.
                if self._api.get(jobs(followed.namespace, names.job_name(attempt.address, attempt.number))):
                    return LaunchState.RUNNING
            return LaunchState.GONE if self._ending(attempt, followed) else LaunchState.RUNNING
        except (ClusterUnavailable, ApiRefusal):
            return unknown

    def exit_code(self, attempt: Attempt) -> int | None:
        followed = self._followed.get(attempt.path)
        return followed.ending.exit_code if followed and followed.ending else None

    def ending(self, attempt: Attempt) -> Ending | None:
        """How it ended, as far as the cluster knows more than the exit code."""
        followed = self._followed.get(attempt.path)
        found = followed.ending if followed else None
        if found is None:
            return None
        words = {"type": "WorkFailed", "what": found.what, "where": "", "remedy": found.remedy}
        return Ending(outcome=found.outcome, error=words if found.what else None)

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        followed = self._follow(attempt)
        if followed is None:
            return
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(followed.namespace, name))
        if job is None:
            return
        if ended(job):
            return
        # In the foreground: the Job is there until its pods are gone. Each pod has its own grace to save in.
        self._api.delete(jobs(followed.namespace, name), propagationPolicy="Foreground")
        seen = self._wait_gone(attempt, followed, grace_s)
        for force_s in (1, 0):
            if self._api.get(jobs(followed.namespace, name)) is None:
                break
            for pod in self._pods_of(attempt, followed):
                self._api.delete(pods(followed.namespace, pod["metadata"]["name"]), gracePeriodSeconds=force_s)
            seen = self._wait_gone(attempt, followed, _FORCE_S) or seen
        record_place(attempt, job, seen, None, cause=CANCELLED, refund="none", now=self._clock())
        followed.watch.close()

    def jobs(self, store_url: str) -> list[Object]:
        """All Jobs that work for the store, of all tenants."""
        label = f"{names.MANAGED},{names.STORE}={names.store_label(store_url)}"
        return list(self._api.list(jobs(""), {"labelSelector": label}).get("items") or [])

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        """Have the attempt's Job removed, its pods with the grace that they have, without waiting for that; where it
        ran is put on record first, as with the Job goes what is known of it."""
        namespace = self._settings.namespace_of(attempt.address.tenant)
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(namespace, name))
        if job is None:
            return
        found = self._api.list(pods(namespace), {"labelSelector": f"{names.JOB}={name}"}).get("items") or []
        record_place(attempt, job, found, None, cause=CANCELLED, refund=refund, now=self._clock())
        self._api.delete(jobs(namespace, name), propagationPolicy="Background")

    @property
    def relabels(self) -> bool:
        """Whether Jobs wait in a queue whose priorities change with time."""
        return self._settings.queue is not None and self._settings.ageing is not None

    def plan_classes(self, seen: Sequence[tuple[Object, Mapping[str, Any]]]) -> list[Relabel]:
        """What to relabel, of Jobs with their last progress, among the classes that the cluster has."""
        known = {each["metadata"]["name"] for each in self._api.list(priority_classes(), {}).get("items") or []}
        return plan_classes(seen, self._settings, known, self._clock())

    def relabel(self, change: Relabel) -> None:
        """Give a Job its new class; one that is gone needs none. Raises ApiRefusal where it may not."""
        try:
            self._api.patch(jobs(change.namespace, change.name), change.patch)
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise

    def why_waiting(self, attempt: Attempt) -> Waiting:
        """Why the attempt's pods do not run, where they do not. A few requests; nothing is kept."""
        namespace = self._settings.namespace_of(attempt.address.tenant)
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(namespace, name))
        if job is None:
            return why_waiting(None, None)
        about = {"fieldSelector": f"involvedObject.name={name}"}
        mine = {"labelSelector": f"kueue.x-k8s.io/job-uid={job['metadata']['uid']}"}
        queued = names.QUEUE in job["metadata"].get("labels", {})
        found = self._api.list(workloads(namespace), mine).get("items") if queued else []
        waiting_pods = self._api.list(pods(namespace), {"labelSelector": f"{names.JOB}={name}"}).get("items") or []
        told = self._api.list(events(namespace), about).get("items") or []
        return why_waiting(job, found[0] if found else None, waiting_pods, told)

    def clean_up(self, attempt: Attempt) -> None:
        """Keep the place's record and the last words, and remove a Job that would only start again."""
        followed = self._follow(attempt)
        if followed is None:
            return
        try:
            self._clean_up(attempt, followed)
        except (ClusterUnavailable, ApiRefusal):
            # What is left is found by its labels later (``orphans``).
            return
        finally:
            followed.watch.close()

    def _clean_up(self, attempt: Attempt, followed: _Followed) -> None:
        if not followed.watch.wait_answer(_FIRST_ANSWER_S):
            return
        deadline = time.monotonic() + _SETTLE_S
        while (ending := self._ending(attempt, followed, patient=False)) is None:
            if time.monotonic() > deadline:
                return
            followed.watch.wait(0.2)
        if (job := followed.watch.last) is None:
            return
        self._keep_logs(attempt, followed)
        cause, refund = str(ending.cause), ending.refund
        if ending.cause in UNEXPLAINED and attempt.stop_requested():
            cause, refund = CANCELLED, "none"
        record_place(attempt, job, followed.pods, ending, cause=cause, refund=refund, now=self._clock())
        if followed.watch.job is not None and not ended(job):
            self._api.delete(jobs(followed.namespace, job["metadata"]["name"]), propagationPolicy="Background")

    def _create(self, namespace: str, job: Object) -> Object:
        """The new Job, or the same one where it is there already."""
        try:
            return self._api.create(jobs(namespace), job)
        except ApiRefusal as refusal:
            if refusal.code != 409:
                raise _explained(refusal, namespace) from refusal
        name = job["metadata"]["name"]
        found = self._api.get(jobs(namespace, name))
        wanted = job["metadata"]["labels"]
        same = (names.FINGERPRINT, names.ATTEMPT, names.TENANT, names.STORE)
        labels = found["metadata"].get("labels", {}) if found else {}
        if found is None or any(labels.get(label) != wanted[label] for label in same):
            raise UserError(
                "the name of this attempt's Job is taken by another",
                where=f"{namespace}/{name}",
                remedy="Look whose it is with kubectl; two platforms need two stores and two sets of namespaces.",
            )
        return found

    def _create_beside(self, namespace: str, manifest: Object) -> None:
        try:
            self._api.create(_PLURALS[manifest["kind"]](namespace), manifest)
        except ApiRefusal as refusal:
            if refusal.code != 409:
                raise _explained(refusal, namespace) from refusal

    def _follow(self, attempt: Attempt) -> _Followed | None:
        """What is known of the attempt; None for one that another launcher started."""
        followed = self._followed.get(attempt.path)
        if followed is None or not followed.launched:
            handle = attempt.launch()
            if handle is not None and handle["launcher"] != "kubernetes":
                return None
            if followed is None:
                namespace = handle["namespace"] if handle else self._settings.namespace_of(attempt.address.tenant)
                watch = JobWatch(self._api, namespace, names.job_name(attempt.address, attempt.number))
                followed = self._followed[attempt.path] = _Followed(namespace=namespace, watch=watch)
            if handle is not None:
                followed.launched, followed.spot = True, handle["spot"]
                followed.own_image = handle["own_image"]
        return followed

    def _ending(self, attempt: Attempt, followed: _Followed, *, patient: bool = True) -> PodEnding | None:
        """How the attempt's pods ended, looking at them where the Job alone does not say.

        Found once, it stays: what made it out is gone soon after.
        """
        if followed.ending is not None:
            return followed.ending
        job = followed.watch.job
        if job is not None and self._should_look(job, followed, patient):
            followed.looked_at, followed.looked_version = time.monotonic(), job["metadata"]["resourceVersion"]
            followed.pods = _merged(followed.pods, self._pods_of(attempt, followed))
        sight = Sight(
            job=job,
            pods=followed.pods,
            begun=followed.begun,
            spot=followed.spot,
            own_image=followed.own_image,
            now=self._clock(),
            queue_timeout_s=self._settings.queue_timeout_s,
            image_pull_timeout_s=self._settings.image_pull_timeout_s,
        )
        if job is not None and not followed.begun and asks_whether_begun(sight):
            followed.begun = bool(attempt.progress())
            sight = replace(sight, begun=followed.begun)
        followed.ending = ending_of(sight)
        return followed.ending

    def _should_look(self, job: Object, followed: _Followed, patient: bool) -> bool:
        """Whether the pods may have something to say: at an end at once, in trouble now and then, else never."""
        status, fresh = job.get("status", {}), job["metadata"]["resourceVersion"] != followed.looked_version
        if ended(job):
            return fresh
        troubled = status.get("terminating") or status.get("active", 0) > status.get("ready", 0)
        due = time.monotonic() - followed.looked_at >= self._look_every_s
        return bool(troubled) and (due or (not patient and fresh))

    def _pods_of(self, attempt: Attempt, followed: _Followed) -> list[Object]:
        name = names.job_name(attempt.address, attempt.number)
        found = self._api.list(pods(followed.namespace), {"labelSelector": f"{names.JOB}={name}"}, patient=False)
        return list(found.get("items") or [])

    def _wait_gone(self, attempt: Attempt, followed: _Followed, seconds: float) -> list[Object]:
        """Wait until the Job is gone, at most so long; its pods as they were seen last."""
        name = names.job_name(attempt.address, attempt.number)
        seen: list[Object] = []
        deadline, pause_s = time.monotonic() + seconds, 0.2
        while True:
            seen = _merged(seen, self._pods_of(attempt, followed))
            if self._api.get(jobs(followed.namespace, name)) is None or time.monotonic() >= deadline:
                return seen
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(1.5 * pause_s, 5.0)

    def _keep_logs(self, attempt: Attempt, followed: _Followed) -> None:
        """Pods go, and their logs with them: the first rank's last words go behind what its worker has shipped itself,
        other ranks' whole logs beside."""
        for pod in followed.pods:
            index = int(pod["metadata"].get("labels", {}).get(names.JOB_INDEX, 0))
            text = self._api.log(pods(followed.namespace, pod["metadata"]["name"]), WORKER)
            if index:
                if text:
                    attempt.store.put(f"{attempt.path}/nodes/{index:02d}.txt", text)
                continue
            chunks = attempt.chunks("log", 0)
            rest = text[sum(len(data) for _, data in chunks) :]
            if rest:
                attempt.write_log(chunks[-1][0] + 1 if chunks else 1, rest)


def _merged(before: Sequence[Object], now: Sequence[Object]) -> list[Object]:
    """Pods as they were seen last, also those that are gone by now."""
    return list({pod["metadata"]["uid"]: pod for pod in [*before, *now]}.values())


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
