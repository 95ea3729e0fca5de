"""Workers as Jobs of a Kubernetes cluster: one Job for each attempt, named after it."""

import time
from collections.abc import Callable

from ft_resources.attempts import Attempt, Ending
from ft_resources.errors import ClusterUnavailable, Misconfigured, NoRoomYet, WorkFailed
from ft_resources.jobs import Job
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, events, jobs, pods
from ft_resources.kubernetes.attempt_plan import plan_attempt
from ft_resources.kubernetes.causes import MEANINGS, UNEXPLAINED, Cause
from ft_resources.kubernetes.creation import create_beside, create_job
from ft_resources.kubernetes.dagster_pod import Config, honoured
from ft_resources.kubernetes.elastic import Elastic
from ft_resources.kubernetes.followed import FollowedJob
from ft_resources.kubernetes.job_plan import PodPlan
from ft_resources.kubernetes.kueue_api import workload_of
from ft_resources.kubernetes.manifests import owned_by, to_k8s
from ft_resources.kubernetes.objects import Object, ended
from ft_resources.kubernetes.placement import discard, record_place
from ft_resources.kubernetes.pod import WORKER
from ft_resources.kubernetes.queue import KueueQueue, job_of, list_jobs
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.waiting import waits_for_room, why_waiting
from ft_resources.kubernetes.watched import WatchedNamespace
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Refund
from ft_resources.waiting import Waiting
from ft_resources.work import WorkSpec

_FIRST_ANSWER_S = 5.0
_LOOK_EVERY_S = 10.0
"""Minimum seconds between listings of pods; apart from these a waiting process has one watch a namespace."""
_SETTLE_S = 20.0
"""Time for a pod to be gone after its worker reported its ending."""
_FORCE_S = 10.0


def connect(settings_path: str = "") -> "KubernetesLauncher":
    """The launcher of the cluster that the settings in this file, else in ``FT_KUBERNETES``, describe.

    Raises UserError for bad settings, or without a cluster.
    """
    settings = read_settings(settings_path)
    return KubernetesLauncher(settings, Api.connect(settings.context))


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
        self._watched: dict[str, WatchedNamespace] = {}
        self.queue = KueueQueue(settings, api, clock) if settings.queue else None
        self.explains = self.remote = self.pods = self

    def gpus_now(self, spec: WorkSpec, attempt: Attempt) -> int:
        """What there is room for in the tenant's queue; see ``elastic.py``."""
        return Elastic(self._settings, self._api, self._clock).gpus_now(spec, attempt)

    def honoured(self, from_instance: Config, from_work: Config) -> Config:
        return honoured(from_instance, from_work, self._settings.from_dagster)

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        """Create the attempt's Job, or find the one that a request with a lost answer created.

        Raises UserError for hardware that the cluster does not have and for a Job that the API refuses, NoRoomYet while
        the namespace's quota is full, ClusterUnavailable if the API does not answer.
        """
        plan = plan_attempt(spec, attempt, self._settings, self._module)
        created = self._create(plan, attempt)
        handle = {"launcher": "kubernetes", "namespace": plan.namespace, "job": plan.name}
        kind = {"spot": plan.spot, "own_image": spec.resources.image is not None}
        attempt.write_launch({**handle, "uid": created["metadata"]["uid"], **kind})

    def _create(self, plan: PodPlan, attempt: Attempt) -> Object:
        """The Job, with what it needs beside it."""
        job, *others = to_k8s(plan)
        try:
            created = create_job(self._api, plan.namespace, job)
            for manifest in others:
                create_beside(self._api, plan.namespace, owned_by(manifest, created))
        except NoRoomYet as full:
            if self._clock() - attempt.claimed_at() <= self._settings.queue_timeout_s:
                raise
            timeout = MEANINGS[Cause.QUEUE_TIMEOUT]
            raise WorkFailed(f"{timeout.what}: {full.what}", where=full.where, remedy=timeout.remedy) from full
        return created

    def state(self, attempt: Attempt) -> LaunchState:
        followed = self._follow(attempt)
        if followed is None:
            return LaunchState.UNKNOWN
        # Silence is no evidence of an end: a launched Job is assumed to run until the API says otherwise.
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

    def ending(self, attempt: Attempt) -> Ending | None:
        """How its pods ended, as they showed when it was last looked at."""
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
        try:
            self._stop(attempt, followed, grace_s)
        except ApiRefusal as refusal:
            raise Misconfigured(
                f"the cluster does not let its Job be ended ({refusal})",
                where=str(attempt.address),
                remedy="Its worker, if it runs, stops by itself all the same. Give the right to end Jobs in its "
                "namespace (`ft apply`), then cancel it again.",
            ) from refusal

    def _stop(self, attempt: Attempt, followed: FollowedJob, grace_s: float) -> None:
        job = self._api.get(followed.path)
        if job is None or ended(job):
            return
        # Foreground deletion: the Job exists until its pods are gone. Each pod has its own grace period to save.
        self._api.delete(followed.path, propagationPolicy="Foreground")
        seen = followed.wait_gone(grace_s)
        for force_s in (1, 0):
            if self._api.get(followed.path) is None:
                break
            for pod in followed.list_pods():
                self._api.delete(pods(followed.namespace, pod["metadata"]["name"]), gracePeriodSeconds=force_s)
            seen = followed.wait_gone(_FORCE_S) or seen
        record_place(attempt, job, seen, None, cause=attempt.stopped_as(), refund="none", now=self._clock())
        followed.watch.close()

    def jobs(self, store_url: str) -> list[Job]:
        """All Jobs of the store, for all tenants."""
        return [job_of(found) for found in list_jobs(self._api, store_url)]

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        """Remove the attempt's Job without waiting; its pods keep their grace period. Its place is recorded first:
        the evidence disappears with the Job."""
        namespace = self._settings.namespace_of(attempt.address.tenant)
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(namespace, name))
        if job is not None:
            discard(self._api, attempt, job, refund, self._clock())

    def why_waiting(self, attempt: Attempt) -> Waiting:
        """Why the attempt's pods do not run, if they do not. Needs a few requests; nothing is cached."""
        namespace = self._settings.namespace_of(attempt.address.tenant)
        name = names.job_name(attempt.address, attempt.number)
        job = self._api.get(jobs(namespace, name))
        if job is None:
            wait = attempt.wait()
            tried_again = wait is not None and wait["until"] + _SETTLE_S > self._clock()
            return waits_for_room(wait["said"]) if wait and tried_again else why_waiting(None, None)
        about = {"fieldSelector": f"involvedObject.name={name}"}
        queued = names.QUEUE in job["metadata"].get("labels", {})
        workload = workload_of(self._api, namespace, job) if queued else None
        waiting_pods = self._api.items(pods(namespace), names.of_job(name))
        told = [*self._api.items(events(namespace), about)]
        for pod in [each for each in waiting_pods if each.get("status", {}).get("phase") == "Pending"][:1]:
            about = {"fieldSelector": f"involvedObject.name={pod['metadata']['name']}"}
            told += self._api.items(events(namespace), about)
        return why_waiting(job, workload, waiting_pods, told)

    def clean_up(self, attempt: Attempt) -> None:
        """Record the place and the end of the log, and remove a Job that would only start again."""
        followed = self._follow(attempt)
        if followed is None:
            return
        try:
            self._clean_up(attempt, followed)
        except (ClusterUnavailable, ApiRefusal):
            # ``orphans`` later finds what is left by its labels.
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
            cause, refund = str(attempt.stopped_as()), "none"
        record_place(attempt, job, followed.last_pods, ending, cause=cause, refund=refund, now=self._clock())
        if followed.watch.job is not None and not ended(job):
            self._api.delete(followed.path, propagationPolicy="Background")

    def _follow(self, attempt: Attempt) -> FollowedJob | None:
        """The attempt's followed Job; None if another launcher started it."""
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
                    watched=self._watched.setdefault(namespace, WatchedNamespace(self._api, namespace)),
                    settings=self._settings,
                    clock=self._clock,
                    look_every_s=self._look_every_s,
                )
            if handle is not None:
                followed.know_launch(handle)
        return followed

    def _keep_logs(self, attempt: Attempt, followed: FollowedJob) -> None:
        """Save logs before the pods are deleted: the first rank's completes what its worker uploaded, other ranks' are
        stored next to it."""
        for pod in followed.last_pods:
            index = int(pod["metadata"].get("labels", {}).get(names.JOB_INDEX, 0))
            text = self._api.log(pods(followed.namespace, pod["metadata"]["name"]), WORKER)
            if not index:
                attempt.complete_log(text)
            elif text:
                attempt.store.put(f"{attempt.path}/nodes/{index:02d}.txt", text)
