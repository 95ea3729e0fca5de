"""On a cluster: the key of a judge comes to the worker from the tenant's Secret, and to nothing that is kept."""

import json
from base64 import b64encode
from dataclasses import replace

import pytest

from ft_resources.artifacts import Artifact
from ft_resources.canonical import sha256_bytes
from ft_resources.execution import Execution
from tests.resources.launchers.conftest import OnCluster

pytestmark = pytest.mark.cluster
WANTED, OTHER = "FT_JUDGE_KEY_WANTED", "FT_JUDGE_KEY_OTHER"
VALUE = "only-the-worker-may-see-this"


def judged(on_cluster: OnCluster) -> Artifact:
    """What a worker made whose recipe's judge wants one key, where the platform allows two."""
    place = on_cluster.place()
    hosts = [{"host": "judge.example.com", "keys": [WANTED, OTHER], "private": False}]
    models = [{"endpoint": "https://judge.example.com/v1", "model": "m", "key": WANTED}]
    request = place.request("told", names=[WANTED, OTHER], evaluation={"judge": {"models": models}})
    request = replace(request, runtime={"judge_hosts": hosts})
    return Execution(store=on_cluster.store, launcher=place.launcher(), poll_s=0.05).run(request, actor="a").artifact


def test_a_worker_gets_the_key_that_its_recipe_wants_and_no_record_holds_it(on_cluster: OnCluster) -> None:
    data = {name: b64encode(value.encode()).decode() for name, value in ((WANTED, VALUE), (OTHER, "another"))}
    secret = {"metadata": {"name": "ft-judge-keys"}, "data": data}
    on_cluster.access.core.create_namespaced_secret(on_cluster.access.namespace, secret)
    artifact = judged(on_cluster)
    told = json.loads(artifact.read("told.json"))
    assert told == {WANTED: sha256_bytes(VALUE.encode())}
    for entry in on_cluster.store.entries(on_cluster.tenant):
        assert VALUE.encode() not in on_cluster.store.get(entry.path), entry.path


def test_a_worker_starts_without_a_key_that_is_not_there_as_it_says_best_what_is_missing(
    on_cluster: OnCluster,
) -> None:
    assert json.loads(judged(on_cluster).read("told.json")) == {}
