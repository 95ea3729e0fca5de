"""Nodes that are kept warm: what is applied for them, who may do what there, and that a worker downloads nothing."""

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import FETCHED, Attempt
from ft_resources.canonical import digest, sha256_bytes
from ft_resources.errors import Misconfigured
from ft_resources.file_cache import FileCache
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import to_k8s
from ft_resources.kubernetes.platform import tenant_objects
from ft_resources.kubernetes.s3_policy import BASES, bases_policy
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.warm import PRIORITY, warm_objects
from ft_resources.kubernetes.warm_process import fetch, require_own
from ft_resources.store_layout import Layout
from ft_resources.store_marker import open_store
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import until
from tests.cluster.objects import PODS
from tests.counting_store import CountingStore
from tests.k8s.applied import apply
from tests.resources.kubernetes.iam import may
from tests.resources.kubernetes.specs import IMAGE, settings_of, spec_of
from tests.s3_server import use_bucket

URL, COMMIT = "s3://bucket/ft", "c" * 40
BASE = f"hub:org/base@{COMMIT}"
OTHER = f"registry.example/other@sha256:{'b' * 64}"
TYPES = {
    "H100": {"node_selector": {"gpu": "h100"}, "tolerations": [{"key": "nvidia.com/gpu"}]},
    "L4-1of4": {"resource": "nvidia.com/gpu.shared", "shared_by": 4},
}
KEPT: dict[str, Any] = {
    "gpu_types": TYPES,
    "cache": {"kind": "host-path"},
    "keep_warm": {"H100": {"bases": [BASE]}, "L4-1of4": {"nodes": 2, "gpus": 4, "image": OTHER}},
    "identity": {"role_arn": "arn:aws:iam::123456789012:role/ft-{tenant}"},
    "environment": {"AWS_REGION": "x"},
}
WEIGHTS = b"weights" * 1000


def deployments(**changes: Any) -> dict[str, dict[str, Any]]:
    found = warm_objects(settings_of(**KEPT | changes), URL, Layout.BELOW)
    return {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "Deployment"}


def published(store: Any, folder: Path, weights: bytes = WEIGHTS, **facts: Any) -> Artifact:
    made = folder / "model"
    made.mkdir(exist_ok=True)
    (made / "model.safetensors").write_bytes(weights)
    said = {"source": "hub:org/base", "revision": COMMIT} | facts
    address = Address(tenant="shared", asset="base_model", fingerprint=digest(said))
    return Artifacts(store).publish(address, made, writer="w1", identity=said, facts=said, actor="t")


def test_a_warm_pod_holds_a_whole_node_of_its_type_below_every_other_pod_and_outside_all_queues() -> None:
    found = warm_objects(settings_of(queue="ft-{tenant}", **KEPT), URL, Layout.BELOW)
    for each in found:
        kubernetes_validate.validate(each, "1.36", strict=True)
    (lowest,) = [each for each in found if each["kind"] == "PriorityClass"]
    assert (lowest["value"], lowest["preemptionPolicy"]) == (PRIORITY, "Never")
    assert PRIORITY < 0
    specs = deployments()
    assert {name: spec["replicas"] for name, spec in specs.items()} == {"ft-warm-h100": 1, "ft-warm-l4-1of4": 2}
    h100, l4 = (spec["template"]["spec"] for spec in specs.values())
    assert h100["priorityClassName"] == lowest["metadata"]["name"]
    assert h100["nodeSelector"] == {"gpu": "h100"}
    assert "nvidia.com/gpu" in {each["key"] for each in h100["tolerations"]}
    (container,), (other,) = h100["containers"], l4["containers"]
    assert (container["image"], container["resources"]["limits"]["nvidia.com/gpu"]) == (IMAGE, "8")
    assert (other["image"], other["resources"]["limits"]["nvidia.com/gpu.shared"]) == (OTHER, "4")
    assert not [label for each in found for label in str(each) if "kueue" in label]
    # A pod of this Deployment is chosen by no other's selector.
    labels = [spec["template"]["metadata"]["labels"] for spec in specs.values()]
    wanted = [spec["selector"]["matchLabels"] for spec in specs.values()]
    assert [[want.items() <= have.items() for have in labels] for want in wanted] == [[True, False], [False, True]]


def test_without_bases_a_warm_pod_has_no_way_to_the_store() -> None:
    pod = deployments()["ft-warm-l4-1of4"]["template"]["spec"]
    assert [each["name"] for each in pod["volumes"]] == ["tmp"]
    (container,) = pod["containers"]
    assert {each["name"] for each in container["env"]} == {"HOME", "TMPDIR"}
    assert deployments(cache={"kind": "empty-dir"}, keep_warm={"H100": {}})
    assert warm_objects(settings_of(gpu_types=TYPES), "", Layout.BELOW) == []


def test_a_warm_pod_reads_shared_bases_and_nothing_else() -> None:
    (container,) = deployments()["ft-warm-h100"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["AWS_ROLE_ARN"].endswith("role/ft-shared")
    policy = variables["FT_SESSION_POLICY"]
    assert policy == bases_policy(URL, Layout.BELOW)
    assert may(policy, "s3:GetObject", f"shared/base_model/{'b' * 64}/manifest.json")
    for path in ("shared/dataset/x/manifest.json", "acme/base_model/x/manifest.json", "names/recipe/x.json"):
        assert not may(policy, "s3:GetObject", path)
    assert not may(policy, "s3:PutObject", f"shared/base_model/{'b' * 64}/w1/model.safetensors")


def mounts_of(**asked: Any) -> list[dict[str, Any]]:
    pod = to_k8s(plan_pod(spec_of(**asked), settings_of(**KEPT)))[0]["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    paths = {each["name"]: each.get("hostPath", {}).get("path") for each in pod["volumes"]}
    return [mount | {"host": paths[mount["name"]]} for mount in worker["volumeMounts"] if paths[mount["name"]]]


def test_workers_with_gpus_read_warm_bases_and_cannot_write_there() -> None:
    own = {"name": "cache", "mountPath": "/cache", "host": "/var/lib/ft-cache/acme"}
    warm = {"name": "warm", "mountPath": "/warm", "readOnly": True, "host": "/var/lib/ft-cache/warm_bases"}
    assert mounts_of(gpus=1, gpu_type="H100") == [own, warm]
    assert mounts_of() == [own]
    # Nor does a worker of `shared`: only warm pods fill the folder.
    assert mounts_of(tenant="shared", gpus=1) == [own | {"host": "/var/lib/ft-cache/shared"}, warm]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"gpu_types": {"A100-80GB": {}, "A100.80GB": {}}, "keep_warm": {"A100-80GB": {}, "A100.80GB": {}}},
            "keep_warm.A100-80GB and keep_warm.A100.80GB would be one Deployment, ft-warm-a100-80gb",
        ),
        ({"keep_warm": {"H10": {}}}, "keep_warm.H10 should be a type of gpu_types: did you mean 'H100'"),
        ({"cache": {"kind": "empty-dir"}}, "host-path"),
        ({"cache": {"kind": "ephemeral"}}, "host-path"),
        (
            {"gpu_types": {"H100": {"topology": {"level": "rack"}}}, "keep_warm": {"H100": {}}},
            "keep_warm.H100 and gpu_types.H100.topology are alternatives",
        ),
        ({"keep_warm": {"H100": {"bases": ["hub:org/base@main"]}}}, "the whole commit"),
        ({"keep_warm": {"H100": {"bases": ["base.v1"]}}}, "the whole commit"),
        ({"keep_warm": {"H100": {"image": "registry.example/ft:latest"}}}, "digest"),
    ],
)
def test_settings_that_would_keep_nothing_warm_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings_of(**KEPT | changes)


def test_a_worker_downloads_nothing_of_a_base_that_is_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_endpoint: str
) -> None:
    store = CountingStore.in_new_bucket(monkeypatch, s3_endpoint)
    base, missing = published(store, tmp_path), f"hub:org/other@{COMMIT}"
    warm = FileCache(tmp_path / "warm")
    views = tmp_path / "views"
    views.mkdir()
    assert fetch(Artifacts(store), warm, [BASE, missing], views) == {missing}
    (copy,) = warm.root.rglob(sha256_bytes(WEIGHTS))
    os.utime(copy, ns=(5, copy.stat().st_mtime_ns))
    # Of a cache too small for it, as the copy takes no room there.
    worker = FileCache(tmp_path / "own", limit=10, warm=tmp_path / "warm")
    view = worker.folder(base, tmp_path / "view")
    # Noting a use would fail, as the mount is read-only.
    assert copy.stat().st_atime_ns == 5
    assert (view / "model.safetensors").read_bytes() == WEIGHTS
    assert (store.fetched["model.safetensors"], worker.fetched) == (1, 0)


def test_a_base_that_does_not_fit_or_cannot_be_read_keeps_no_other_from_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = CountingStore.in_new_bucket(monkeypatch, s3_endpoint)
    store.put(f"{BASES}/{'0' * 64}/manifest.json", b"damaged")
    large = f"hub:org/large@{COMMIT}"
    published(store, tmp_path, source="hub:org/large", weights=WEIGHTS * 2)
    published(store, tmp_path)
    cache = FileCache(tmp_path / "warm", limit=len(WEIGHTS))
    assert fetch(Artifacts(store), cache, [BASE, large], tmp_path) == {large}
    told = capsys.readouterr().out
    assert f"on this node: {BASE}" in told
    assert f"not fetched: {large}: " in told


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_endpoint: str) -> Artifact:
    """A base on S3, of which nothing was fetched yet."""
    return published(CountingStore.in_new_bucket(monkeypatch, s3_endpoint), tmp_path)


def test_a_copy_that_is_no_longer_whole_is_not_believed(tmp_path: Path, base: Artifact) -> None:
    warm = FileCache(tmp_path / "warm")
    warm.folder(base, tmp_path / "first")
    (copy,) = warm.root.rglob(sha256_bytes(WEIGHTS))
    copy.chmod(0o644)
    copy.write_bytes(b"x" * len(WEIGHTS))
    worker = FileCache(tmp_path / "own", warm=tmp_path / "warm")
    assert (worker.folder(base, tmp_path / "view") / "model.safetensors").read_bytes() == WEIGHTS
    assert worker.fetched == len(WEIGHTS)


def test_nobody_waits_for_a_copy_that_another_tenants_worker_keeps_locked(tmp_path: Path, base: Artifact) -> None:
    with closing(FileCache(tmp_path / "warm")) as filled:
        filled.folder(base, tmp_path / "first")
    (copy,) = filled.root.rglob(sha256_bytes(WEIGHTS))
    worker = FileCache(tmp_path / "own", warm=tmp_path / "warm")
    with copy.open("rb") as kept, ThreadPoolExecutor(1) as pool:
        # Reading is right enough for a lock that shuts out all others.
        fcntl.flock(kept, fcntl.LOCK_EX)
        waiting = pool.submit(worker.folder, base, tmp_path / "view")
        try:
            assert (waiting.result() / "model.safetensors").read_bytes() == WEIGHTS
        finally:
            fcntl.flock(kept, fcntl.LOCK_UN)
    assert worker.fetched == len(WEIGHTS)


def test_a_copy_is_not_used_where_others_may_write(tmp_path: Path, base: Artifact) -> None:
    warm = FileCache(tmp_path / "warm")
    warm.folder(base, tmp_path / "first")
    warm.root.chmod(0o777)
    worker = FileCache(tmp_path / "own", warm=tmp_path / "warm")
    worker.folder(base, tmp_path / "view")
    assert worker.fetched == len(WEIGHTS)


def test_a_folder_that_a_warm_pod_cannot_write_to_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_own(tmp_path)
    # Root, as which tests may run, can write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(Misconfigured, match="warm_bases of this node belongs to user") as told:
        require_own(tmp_path)
    assert "docs/how-to/warm.md" in told.value.remedy


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """What ``ft cluster manifests`` prints with warm nodes."""
    (tmp_path / "tenants.yaml").write_text("tiers: {only: {}}\ntenants: {acme: {tier: only}}\n")
    (tmp_path / "kubernetes.yaml").write_text(yaml.safe_dump({"image": IMAGE, **KEPT}))
    for name in ("tenants", "kubernetes"):
        monkeypatch.setenv(f"FT_{name.upper()}", str(tmp_path / f"{name}.yaml"))

    def manifests(*arguments: str) -> list[dict[str, Any]]:
        result = CliRunner().invoke(app, ["cluster", "manifests", *arguments])
        assert result.exit_code == 0, result.output
        return list(yaml.safe_load_all(result.stdout))

    return manifests


@pytest.mark.cluster
def test_on_a_cluster_a_warm_pod_brings_the_base_to_its_node_and_a_worker_there_downloads_none_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    s3_endpoint: str,
    printed: Callable[..., list[dict[str, Any]]],
) -> None:
    url = use_bucket(monkeypatch, s3_endpoint, "warm")
    store = open_store(url, create=True)
    base = published(store, tmp_path)
    monkeypatch.setenv("FT_STORE", url)
    # The test cluster has no roles, and its scheduler ends no pod for another: both are on one node here.
    changes = {"identity": None, "keep_warm": KEPT["keep_warm"] | {"H100": {"gpus": 4, "bases": [BASE]}}}
    (tmp_path / "kubernetes.yaml").write_text(yaml.safe_dump({"image": IMAGE, **KEPT, **changes}))
    assert not [each for each in printed("acme") if each["kind"] == "Deployment"]
    cluster = Cluster(nodes=0, image={name: os.environ[name] for name in os.environ if name.startswith("AWS_")})
    cluster.add_node("h100", labels={"gpu": "h100"})
    try:
        objects = printed()
        apply(cluster, objects)
        (deployment,) = [each for each in objects if each["metadata"]["name"] == "ft-warm-h100"]
        template = deployment["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
        apply(cluster, [pod | {"metadata": template["metadata"] | {"name": "warm", "namespace": "ft-shared"}}])

        def log() -> str:
            files = list(cluster.folder.glob("h100/pods/*/warm.log"))
            return files[0].read_text() if files else ""

        until(lambda: "on this node" in log())
        assert f"on this node: {BASE}" in log()
        node = cluster.folder / "h100" / "var/lib/ft-cache/warm_bases/files/artifacts/shared"
        assert (node / sha256_bytes(WEIGHTS)).read_bytes() == WEIGHTS
        asked = spec_of(gpus=1, gpu_type="H100", asset="write", store_url=url, layout=store.layout, inputs=0)
        spec = asked.model_copy(update={"inputs": {"base": base.ref}, "params": {"text": "x"}})
        attempt = Attempt(store, spec.address, 1)
        attempt.write_spec(spec)
        apply(cluster, to_k8s(plan_pod(spec, read_settings(), module="tests.fake_worker")))
        assert until(lambda: attempt.record(FETCHED)) == {"bytes": 0}
        # It ends at once: a worker waits for its GPUs.
        cluster.objects.delete(PODS, "ft-shared", "warm")
        until(lambda: cluster.objects.find(PODS, "ft-shared", "warm") is None)
        last = [each.object for each in cluster.objects.history if each.object["metadata"]["name"] == "warm"][-1]
        (ended,) = last["status"]["containerStatuses"]
        assert ended["state"]["terminated"]["exitCode"] == 0
    finally:
        cluster.close()


def test_bases_of_a_store_on_this_machine_are_refused_before_anything_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., list[dict[str, Any]]]
) -> None:
    monkeypatch.setenv("FT_STORE", str(tmp_path))
    result = CliRunner().invoke(app, ["cluster", "manifests"])
    assert (result.exit_code, "a folder of this machine" in " ".join(result.output.split())) == (2, True)


def test_a_jobs_admission_names_the_folder_only_where_bases_are_kept() -> None:
    def folder(**changes: Any) -> str:
        (found,) = [each for each in tenant_objects(settings_of(**changes), "acme") if each["kind"] == "ConfigMap"]
        return str(found["data"]["warm_path"])

    assert folder(**KEPT) == "/var/lib/ft-cache/warm_bases"
    assert folder(**KEPT | {"keep_warm": {"H100": {}}}) == ""
