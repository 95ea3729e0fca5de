"""The API server, as the official client sees it: what it refuses, what a watch tells, what deleting deletes."""

import json
import urllib.request
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.cluster.cluster import ADMIN
from tests.cluster.fixtures import Access, until
from tests.cluster.kueue import PRIORITY, QUEUE
from tests.cluster.objects import KINDS, KUEUE, NAMESPACES

SLEEP = "import time; time.sleep(600)"


def _code(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str]:
    with pytest.raises(ApiException) as caught:
        call(*args, **kwargs)
    return caught.value.status, json.loads(caught.value.body)["reason"]


def test_a_name_is_taken_once_and_a_stale_version_changes_nothing(cluster: Access) -> None:
    first = cluster.run("a", SLEEP, suspend=True)
    assert first.metadata.uid
    assert _code(cluster.run, "a", SLEEP) == (409, "AlreadyExists")
    label = {"metadata": {"labels": {"x": "1"}, "resourceVersion": first.metadata.resource_version}}
    later = until(lambda: cluster.job("a").status.conditions and cluster.job("a"))
    assert int(later.metadata.resource_version) > int(first.metadata.resource_version)
    assert _code(cluster.batch.patch_namespaced_job, "a", cluster.namespace, label) == (409, "Conflict")
    assert cluster.job("a").metadata.labels.get("x") is None


def test_a_deletion_meant_for_another_object_of_the_name_is_refused(cluster: Access) -> None:
    cluster.run("a", SLEEP, suspend=True)
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="0000"), propagation_policy="Background")
    assert _code(cluster.batch.delete_namespaced_job, "a", cluster.namespace, body=wrong) == (409, "Conflict")
    assert cluster.job("a").metadata.name == "a"


def test_what_is_not_there_is_told_apart_from_what_is_not_served(cluster: Access) -> None:
    assert _code(cluster.job, "none") == (404, "NotFound")
    things = ("example.com", "v1", cluster.namespace, "things")
    with pytest.raises(ApiException) as caught:
        cluster.custom.list_namespaced_custom_object(*things)
    assert caught.value.status == 404
    assert _code(cluster.batch.create_namespaced_job, "no-such-namespace", _manifest("a")) == (404, "NotFound")


def test_a_client_that_knows_no_kind_learns_where_each_is_served(cluster: Access) -> None:
    groups = {each.name: each for each in client.ApisApi(cluster.client()).get_api_versions().groups}
    group, version = KUEUE.split("/")
    assert version in {each.version for each in groups[group].versions}
    for api in (cluster.core, cluster.batch):
        kinds = {each.kind: each for each in api.get_api_resources().resources}
        found = kinds.get("Pod") or kinds["Job"]
        assert (found.name, found.namespaced) in (("pods", True), ("jobs", True))


def test_a_malformed_job_is_refused(cluster: Access) -> None:
    long = _manifest("a" * 64)
    assert _code(cluster.batch.create_namespaced_job, cluster.namespace, long) == (422, "Invalid")
    rules = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}]}
    clash = _manifest("a", podFailurePolicy=rules, podReplacementPolicy="TerminatingOrFailed")
    assert _code(cluster.batch.create_namespaced_job, cluster.namespace, clash) == (422, "Invalid")


def test_a_field_of_another_type_or_of_no_name_is_refused(cluster: Access) -> None:
    cluster.machines  # noqa: B018 - a real server refuses types, and names only where it is asked to
    for wrong in ({"env": [{"name": "RANK", "value": 1}]}, {"comand": ["true"]}):
        assert _code(cluster.run, "a", SLEEP, container=wrong) == (400, "BadRequest")


def test_a_running_jobs_template_cannot_be_changed(cluster: Access) -> None:
    cluster.run("a", SLEEP)
    cluster.running("a")
    body = {"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}}
    assert _code(cluster.batch.patch_namespaced_job, "a", cluster.namespace, body) == (422, "Invalid")


def test_selectors_choose_by_label_and_field(cluster: Access) -> None:
    for name, team in (("a", "red"), ("b", "blue")):
        cluster.run(name, SLEEP, suspend=True, labels={"team": team})

    def names(**selectors: str) -> list[str]:
        return [job.metadata.name for job in cluster.batch.list_namespaced_job(cluster.namespace, **selectors).items]

    assert names(label_selector="team=red") == ["a"]
    assert names(label_selector="team,team!=red") == ["b"]
    assert sorted(names(label_selector="team")) == ["a", "b"]
    assert names(field_selector="metadata.name=b") == ["b"]
    with pytest.raises(ApiException) as caught:
        names(field_selector="spec.nonsense=1")
    assert caught.value.status == 400


def test_a_watch_goes_on_where_another_ended(cluster: Access) -> None:
    before = cluster.batch.list_namespaced_job(cluster.namespace).metadata.resource_version
    cluster.run("a", "pass")
    cluster.ended("a")

    def follow(since: str) -> list[tuple[str, str]]:
        """Type and version of each change since, up to the one that completes the Job."""
        seen = []
        for event in watch.Watch().stream(
            cluster.batch.list_namespaced_job, cluster.namespace, resource_version=since, timeout_seconds=60
        ):
            seen.append((event["type"], event["object"].metadata.resource_version))
            if [one for one in event["object"].status.conditions or [] if one.type == "Complete"]:
                return seen
        raise AssertionError("the watch ended before the Job did")

    whole = follow(before)
    assert whole[0][0] == "ADDED"
    assert {kind for kind, _ in whole[1:]} == {"MODIFIED"}
    assert [int(version) for _, version in whole] == sorted({int(version) for _, version in whole})
    assert follow(whole[1][1]) == whole[2:]


def test_a_watch_by_label_is_told_when_an_object_no_longer_matches(cluster: Access) -> None:
    job = cluster.run("a", SLEEP, suspend=True, labels={"team": "red"})
    cluster.batch.patch_namespaced_job("a", cluster.namespace, {"metadata": {"labels": {"team": "blue"}}})
    stream = watch.Watch().stream(
        cluster.batch.list_namespaced_job,
        cluster.namespace,
        label_selector="team=red",
        resource_version=job.metadata.resource_version,
        timeout_seconds=60,
    )
    assert next(event["type"] for event in stream if event["type"] != "MODIFIED") == "DELETED"


def test_a_watch_ends_at_its_timeout_with_a_bookmark(cluster: Access) -> None:
    cluster.run("a", SLEEP, suspend=True)
    until(lambda: cluster.job("a").status.conditions)
    address = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs?watch=true&allowWatchBookmarks=true"
    address += f"&timeoutSeconds={cluster.long_s}"
    reply = cluster.client().call_api(address, "GET", auth_settings=["BearerToken"], _preload_content=False)
    cluster.after(cluster.long_s)
    types = [json.loads(line)["type"] for line in reply.read().splitlines()]
    assert types[0] == "ADDED"
    assert set(types[1:]) <= {"BOOKMARK"}
    if cluster.made:
        assert types[-1] == "BOOKMARK"


def test_a_version_that_is_forgotten_is_gone(cluster: Access) -> None:
    old = cluster.run("a", SLEEP, suspend=True).metadata.resource_version
    # Something has happened since, which is forgotten too.
    until(lambda: int(cluster.core.list_namespaced_event(cluster.namespace).metadata.resource_version) > int(old))
    cluster.machines.objects.compact()
    with pytest.raises(ApiException) as caught:
        list(watch.Watch().stream(cluster.batch.list_namespaced_job, cluster.namespace, resource_version=old))
    assert caught.value.status == 410


def test_a_broken_watch_ends_in_the_middle_of_a_line(cluster: Access) -> None:
    machines = cluster.machines
    url = f"http://127.0.0.1:{machines.port}/apis/batch/v1/jobs?watch=true"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {ADMIN}"})) as reply:
        until(lambda: machines.server.watches)
        assert machines.server.break_watches() == 1
        with pytest.raises(Exception, match="IncompleteRead"):
            reply.read()


def test_objects_outlive_a_restart_of_the_api_server_and_connections_do_not(cluster: Access) -> None:
    uid = cluster.run("a", SLEEP).metadata.uid
    cluster.running("a")
    batch = cluster.batch
    batch.read_namespaced_job("a", cluster.namespace)
    cluster.machines.restart_api_server()
    assert cluster.job("a").metadata.uid == uid
    assert cluster.job("a").status.active == 1


def test_an_answer_can_be_made_to_fail_as_often_as_wanted(cluster: Access) -> None:
    cluster.run("a", SLEEP, suspend=True)
    machines = cluster.machines
    machines.answer(429, where="GET .*/jobs/a", times=2)
    assert _code(cluster.job, "a") == (429, "TooManyRequests")
    assert _code(cluster.job, "a") == (429, "TooManyRequests")
    assert cluster.job("a").metadata.name == "a"
    machines.answer(503, where="PATCH", times=1)
    body: dict[str, Any] = {"metadata": {"labels": {"x": "y"}}}
    assert _code(cluster.batch.patch_namespaced_job, "a", cluster.namespace, body) == (503, "ServiceUnavailable")


def test_the_client_comes_back_by_itself_when_it_is_told_when(cluster: Access) -> None:
    cluster.run("a", SLEEP, suspend=True)
    machines = cluster.machines
    machines.answer(429, where="GET .*/jobs/a", times=1, Retry_After="1")
    assert cluster.job("a").metadata.name == "a"
    asked = [line for _, line in machines.server.requests if line.endswith("/jobs/a") and line.startswith("GET")]
    assert len(asked) == 2


def test_a_token_reaches_its_namespaces_alone(cluster: Access) -> None:
    machines = cluster.machines
    machines.server.tokens["tenant"] = {cluster.namespace}

    def status(token: str, namespace: str) -> int:
        access = Access(machines.kubeconfig(token), namespace, cluster.image, machines)
        try:
            access.pods("a")
        except ApiException as error:
            return int(error.status)
        return 200

    assert status("tenant", cluster.namespace) == 200
    assert status("tenant", "default") == 403
    assert status("stranger", cluster.namespace) == 401


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_pods_go_with_their_job(cluster: Access, policy: str) -> None:
    cluster.run("a", SLEEP)
    cluster.running("a")
    cluster.batch.delete_namespaced_job("a", cluster.namespace, propagation_policy=policy)
    until(lambda: not cluster.pods("a"))
    until(lambda: not cluster.batch.list_namespaced_job(cluster.namespace).items)


def test_a_job_deleted_without_a_policy_leaves_its_pods_running(cluster: Access) -> None:
    cluster.run("a", SLEEP)
    (pod,) = cluster.running("a")
    cluster.batch.delete_namespaced_job("a", cluster.namespace)
    until(lambda: not cluster.batch.list_namespaced_job(cluster.namespace).items)
    until(lambda: not cluster.pods("a")[0].metadata.finalizers)
    (left,) = cluster.running("a")
    assert (left.metadata.uid, left.metadata.owner_references) == (pod.metadata.uid, None)


def test_what_a_job_owns_goes_with_it(cluster: Access) -> None:
    job = cluster.run("a", SLEEP, suspend=True)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": job.metadata.uid, "controller": True}
    service = {
        "metadata": {"name": "a", "ownerReferences": [owner]},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}},
    }
    cluster.core.create_namespaced_service(cluster.namespace, service)
    cluster.batch.delete_namespaced_job("a", cluster.namespace, propagation_policy="Background")
    until(lambda: not cluster.core.list_namespaced_service(cluster.namespace).items)


def test_an_empty_list_of_rules_is_given_back_as_none_and_the_official_client_cannot_read_it(cluster: Access) -> None:
    with pytest.raises(ValueError, match="rules"):
        cluster.batch.create_namespaced_job(cluster.namespace, _manifest("a", podFailurePolicy={"rules": []}))


def test_nothing_is_left_of_a_test_on_a_cluster_that_goes_on(cluster: Access) -> None:
    objects = cluster.machines.objects
    before = {(kind, item["metadata"]["name"]) for kind in KINDS.values() for item in objects.list(kind)}
    before -= {(NAMESPACES, cluster.namespace)}
    queue, names = cluster.queue(gpus=1), cluster.priorities(low=1)
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["low"]})
    cluster.running("a")
    cluster.leave()
    assert {(kind, item["metadata"]["name"]) for kind in KINDS.values() for item in objects.list(kind)} == before


def _manifest(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "t", "image": "x:1", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"completionMode": "Indexed", "completions": 1, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job}
