"""Workers as Jobs of a Kubernetes cluster: one Job for each attempt, named after it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ft_resources.attempts import Attempt, Ending, attempts_at
from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import Relabel, plan_classes
from ft_resources.kubernetes.api import Api, ApiRefusal, events, jobs, pods, priority_classes, workloads
from ft_resources.kubernetes.causes import UNEXPLAINED
from ft_resources.kubernetes.creation import create_beside, create_job
from ft_resources.kubernetes.followed import FollowedJob
from ft_resources.kubernetes.manifests import owned_by, to_k8s
from ft_resources.kubernetes.objects import Object, ended
from ft_resources.kubernetes.placement import CANCELLED, lost_spot, record_place
from ft_resources.kubernetes.plan import plan_pod
from ft_resources.kubernetes.pod import WORKER
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.waiting import Waiting, why_waiting
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Refund
from ft_resources.work import WorkSpec

_FIRST_ANSWER_S = 5.0
_LOOK_EVERY_S = 10.0
"""Pods are listed at most so often; beside that a waiting run has one watch."""
_SETTLE_S = 20.0
"""A pod whose worker has said how it ended is given so long to be gone."""
_FORCE_S = 10.0


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
        self._followed: dict[str, FollowedJob] = {}

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
        created = create_job(self._api, plan.namespace, job)
        for manifest in others:
            create_beside(self._api, plan.namespace, owned_by(manifest, created))
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
                if self._api.get(followed.path):
                    return LaunchState.RUNNING
            return LaunchState.GONE if followed.find_ending() else LaunchState.RUNNING
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
        job = self._api.get(followed.path)
        if job is None or ended(job):
            return
        # In the foreground: the Job is there until its pods are gone. Each pod has its own grace to save in.
        self._api.delete(followed.path, propagationPolicy="Foreground")
        seen = followed.wait_gone(grace_s)
        for force_s in (1, 0):
            if self._api.get(followed.path) is None:
                break
            for pod in followed.list_pods():
                self._api.delete(pods(followed.namespace, pod["metadata"]["name"]), gracePeriodSeconds=force_s)
            seen = followed.wait_gone(_FORCE_S) or seen
        record_place(attempt, job, seen, None, cause=CANCELLED, refund="none", now=self._clock())
        followed.watch.close()

    def jobs(self, store_url: str) -> list[Object]:
        """All Jobs that work for the store, of all tenants."""
        label = f"{names.MANAGED},{names.STORE}={names.store_label(store_url)}"
        return list(self._api.items(jobs(""), {"labelSelector": label}))

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        """Have the attempt's Job removed, its pods with the grace that they have, without waiting for that; where it
        ran is put on record first, as with the Job goes what is known of it."""
        namespace = self._settings.namespace_of(attempt.address.tenant)
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(namespace, name))
        if job is None:
            return
        found = self._api.items(pods(namespace), names.of_job(name))
        record_place(attempt, job, found, None, cause=CANCELLED, refund=refund, now=self._clock())
        self._api.delete(jobs(namespace, name), propagationPolicy="Background")

    @property
    def relabels(self) -> bool:
        """Whether Jobs wait in a queue whose priorities change with time."""
        return self._settings.queue is not None and self._settings.ageing is not None

    def plan_classes(self, seen: Sequence[tuple[Object, Mapping[str, Any]]]) -> list[Relabel]:
        """What to relabel, of Jobs with their last progress, among the classes that the cluster has."""
        known = {each["metadata"]["name"] for each in self._api.items(priority_classes(), {})}
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
        found = self._api.items(workloads(namespace), mine) if queued else ()
        waiting_pods = self._api.items(pods(namespace), names.of_job(name))
        told = self._api.items(events(namespace), about)
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

    def _clean_up(self, attempt: Attempt, followed: FollowedJob) -> None:
        if not followed.watch.wait_answer(_FIRST_ANSWER_S):
            return
        deadline = time.monotonic() + _SETTLE_S
        while (ending := followed.find_ending(patient=False)) is None:
            if time.monotonic() > deadline:
                return
            followed.watch.wait(0.2)
        if (job := followed.watch.last) is None:
            return
        self._keep_logs(attempt, followed)
        cause, refund = str(ending.cause), ending.refund
        if ending.cause in UNEXPLAINED and attempt.stop_requested():
            cause, refund = CANCELLED, "none"
        record_place(attempt, job, followed.last_pods, ending, cause=cause, refund=refund, now=self._clock())
        if followed.watch.job is not None and not ended(job):
            self._api.delete(followed.path, propagationPolicy="Background")

    def _follow(self, attempt: Attempt) -> FollowedJob | None:
        """What is known of the attempt; None for one that another launcher started."""
        followed = self._followed.get(attempt.path)
        if followed is None or not followed.launched:
            handle = attempt.launch()
            if handle is not None and handle["launcher"] != "kubernetes":
                return None
            if followed is None:
                namespace = handle["namespace"] if handle else self._settings.namespace_of(attempt.address.tenant)
                followed = self._followed[attempt.path] = FollowedJob(
                    api=self._api,
                    attempt=attempt,
                    namespace=namespace,
                    settings=self._settings,
                    clock=self._clock,
                    look_every_s=self._look_every_s,
                )
            if handle is not None:
                followed.know_launch(handle)
        return followed

    def _keep_logs(self, attempt: Attempt, followed: FollowedJob) -> None:
        """Pods go, and their logs with them: the first rank's last words go behind what its worker has shipped itself,
        other ranks' whole logs beside."""
        for pod in followed.last_pods:
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
