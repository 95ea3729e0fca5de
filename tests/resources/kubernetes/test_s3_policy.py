"""Who may read and write what in the bucket, judged by an evaluator of IAM policies that is not ours."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ft_assets.worker import WORK, drop_saves
from ft_assets.workers.adapters.lineage import lineage
from ft_assets.workers.training.kept_weights import drop_displaced, store_kept
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.errors import UserError
from ft_resources.kubernetes.s3_policy import CACHE, MAX_CHARACTERS, WORKED, role_policy, session_policy, trust_policy
from ft_resources.store import Entry, Store
from ft_resources.store_layout import MARKER, ROOT_FOLDERS, Layout
from ft_resources.work import WorkSpec, attempt_path
from tests.resources.kubernetes.iam import may
from tests.resources.kubernetes.specs import spec_of

SPEC = spec_of(attempt=2)
OWN = str(SPEC.address)
READ, WRITE, DELETE = "s3:GetObject", "s3:PutObject", "s3:DeleteObject"


def session_of(spec: WorkSpec, key: str | None = None) -> str:
    """The policy of its worker's session, which is short enough."""
    policy = session_policy(spec, key)
    assert policy is not None
    assert len(policy) <= MAX_CHARACTERS
    return policy


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize(
    ("action", "path", "allowed"),
    [
        (READ, f"{SPEC.inputs['input0'].address}/manifest.json", True),
        (READ, "shared/base_model/any/manifest.json", True),
        (READ, f"{OWN}/attempts/0001/saves/000001/model.safetensors", True),
        (READ, f"acme/dataset/{'0' * 64}/manifest.json", False),
        (READ, f"globex/token_pack/{'0' * 64}/manifest.json", False),
        (READ, "names/dataset/acme.x.v1.json", False),
        (WRITE, f"{OWN}/attempts/0002/progress.json", True),
        (WRITE, f"{OWN}/w0002-1234/adapter.safetensors", True),
        (WRITE, f"{OWN}/manifest.json", True),
        (WRITE, f"{OWN}/attempts/0001/outcome.json", False),
        (WRITE, f"{OWN}/w0001-1234/adapter.safetensors", False),
        (WRITE, f"{SPEC.inputs['input0'].address}/manifest.json", False),
        (WRITE, "shared/base_model/x/manifest.json", False),
        (WRITE, "globex/anything", False),
        (DELETE, f"{OWN}/attempts/0001/saves/000001/model.safetensors", True),
        (DELETE, f"{OWN}/attempts/0002/kept/000001/kept.json", True),
        (DELETE, f"{OWN}/manifest.json", False),
        (DELETE, f"{OWN}/attempts/0001/outcome.json", False),
    ],
)
def test_an_attempt_reads_its_inputs_and_shared_and_writes_only_itself(
    action: str, path: str, allowed: bool, layout: Layout
) -> None:
    policy = session_of(spec_of(attempt=2, layout=layout))
    assert may(policy, action, path, layout=layout) is allowed


@pytest.mark.parametrize("name", sorted(ROOT_FOLDERS))
def test_the_role_of_a_tenant_called_as_a_folder_of_the_stores_own_reaches_nothing_of_it(name: str) -> None:
    """The attack: the role of a tenant `names` could write every tenant's names."""
    role = json.dumps(role_policy("s3://bucket/ft", Layout.BELOW, name))
    session = session_of(spec_of(tenant=name))
    for action in (READ, WRITE, DELETE):
        for path in (f"{name}/dataset/acme.x.v1.json", f"{name}/cache/x", f"{name}/dataset/x/manifest.json", MARKER):
            assert not may(role, action, path, if_none_match=True)
            assert not may(session, action, path, if_none_match=True)


class Watched(Store):
    """A store that notes what is asked of it, as actions of S3 and paths; ``created`` are writes that S3 refuses where
    an object exists (``If-None-Match``)."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[tuple[str, str]] = []
        self.listed: set[str] = set()
        self.created: list[str] = []

    def create(self, path: str, data: bytes) -> bool:
        self.created.append(path)
        return super().create(path, data)

    def get(self, path: str) -> bytes:
        self.asked.append((READ, path))
        return super().get(path)

    def entries(self, prefix: str) -> Iterator[Entry]:
        self.listed.add(f"{prefix}/")
        return super().entries(prefix)

    def put(self, path: str, data: bytes) -> None:
        self.asked.append((WRITE, path))
        super().put(path, data)

    def upload(self, source: Path, path: str) -> None:
        self.asked.append((WRITE, path))
        super().upload(source, path)

    def delete(self, path: str) -> None:
        self.asked.append((DELETE, path))
        super().delete(path)


def test_an_attempt_may_do_all_that_keeping_the_best_weights_asks_of_the_store(tmp_path: Path) -> None:
    """The record of kept weights is removed before their files change, which S3 refused: no training kept any."""
    store, policy = Watched(str(tmp_path / "store")), session_of(SPEC)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"x")
    for step in (1, 2):
        store_kept(store, SPEC.attempt_path, tmp_path / "weights", step, 1.0)
    drop_displaced(store, SPEC.attempt_path, [2])
    earlier = f"{attempt_path(SPEC.address, 1)}/kept/000001/kept.json"
    Store(store.url, layout=store.layout).put(earlier, b"{}")
    drop_saves(store, SPEC.address, [1, 2])
    assert (DELETE, earlier) in store.asked
    assert {action for action, _ in store.asked} == {WRITE, DELETE}
    assert [each for each in store.asked if not may(policy, *each)] == []


def publish(store: Store, folder: Path, asset: str, *inputs: InputRef) -> InputRef:
    """A made artifact of ``inputs``, as others name it."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.txt").write_text(asset)
    named = {f"input{number}": ref for number, ref in enumerate(inputs)}
    identity = {"asset": asset, "inputs": {name: ref.digest for name, ref in named.items()}}
    address = Address(tenant="acme", asset=asset, fingerprint=digest(identity))
    made = Artifacts(store).publish(
        address, folder, writer="w0001-1", identity=identity, inputs=named, facts={}, actor="ann"
    )
    return made.ref


def test_an_export_may_read_the_lineage_that_it_writes_down_and_no_rows_of_it(tmp_path: Path) -> None:
    """It asks for the manifests of what its inputs were made of, which S3 refused: there were no adapters."""
    store = Watched(str(tmp_path / "store"))
    raw = publish(store, tmp_path / "files", "raw_dataset")
    dataset = publish(store, tmp_path / "files", "dataset", raw)
    pack = publish(store, tmp_path / "files", "token_pack", dataset)
    checkpoint = publish(store, tmp_path / "files", "checkpoint", pack)
    store.delete(f"{raw.address}/manifest.json")
    policy = session_of(spec_of(asset="adapter", inputs=0).model_copy(update={"inputs": {"c": checkpoint}}))
    store.asked.clear()
    store.listed.clear()
    tree = lineage(Artifacts(store), checkpoint.address)
    assert [node.present for _, _, node in tree.walk()] == [True, True, True, False]
    assert [each for each in store.asked if not may(policy, *each)] == []
    (listing,) = [each for each in json.loads(policy)["Statement"] if each["Action"] == ["s3:ListBucket"]]
    allowed = listing["Condition"]["StringLike"]["s3:prefix"]
    assert all(any(fnmatchcase(f"ft/tenants/{folder}", pattern) for pattern in allowed) for folder in store.listed)
    assert not may(policy, READ, f"{dataset.address}/w0001-1/rows.txt")
    assert not may(policy, READ, "globex/dataset/x/manifest.json")


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("inputs", [0, 1, 5, 20, 200])
def test_a_session_policy_is_never_longer_than_may_be_and_never_leaves_the_tenant(inputs: int, layout: Layout) -> None:
    spec = spec_of(inputs=inputs, layout=layout)
    policy = session_of(spec)
    assert all(may(policy, READ, f"{ref.address}/manifest.json", layout=layout) for ref in spec.inputs.values())
    assert not may(policy, READ, "globex/token_pack/x/manifest.json", layout=layout)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize(
    ("action", "path", "allowed"),
    [
        (READ, "acme/dataset/x/manifest.json", True),
        (READ, "shared/base_model/x/manifest.json", True),
        (WRITE, "acme/checkpoint/x/attempts/0001/outcome.json", True),
        (DELETE, "acme/checkpoint/x/attempts/0001/kept/000001/kept.json", True),
        # A file of an artifact may be called as a manifest is.
        (WRITE, "acme/checkpoint/x/w0001-0123abcd/manifest.json", True),
        (DELETE, "acme/checkpoint/x/w0001-0123abcd/manifest.json", True),
        (WRITE, "acme/cache/chunks/0123", True),
        # Whoever may delete a manifest may put another in its place.
        (WRITE, "acme/checkpoint/x/manifest.json", False),
        (DELETE, "acme/checkpoint/x/manifest.json", False),
        # What it pays and what is in production is not its worker's to write, nor when it ran.
        (WRITE, "acme/usage/2026-11/checkpoint.f.0001.json", False),
        (DELETE, "acme/usage/2026-11/checkpoint.f.0001.json", False),
        (WRITE, "acme/quota/2026-11/000001.json", False),
        (WRITE, "acme/refunds/2026-11/checkpoint.f.0001.json", False),
        (WRITE, "acme/lines/acme.a.r/000001.json", False),
        (WRITE, "acme/submissions/0123456789abcdef/outcome.json", False),
        (WRITE, "acme/checkpoint/x/attempts/0001/place.json", False),
        (WRITE, "acme/checkpoint/x/attempts/0002/claim.json", False),
        (WRITE, "acme/checkpoint/x/attempts/0001/launch.json", False),
        (WRITE, "acme/eval_report/x/waivers/task_gain-d.json", False),
        (WRITE, "acme/checkpoint/x/erased/w0001-1.json", False),
        (DELETE, "acme/checkpoint/x/erased/w0001-1.json", False),
        (READ, "acme/eval_report/x/waivers/task_gain-d.json", True),
        (WRITE, "shared/base_model/x/manifest.json", False),
        (READ, "globex/dataset/x/manifest.json", False),
        (READ, "acme-two/dataset/x/manifest.json", False),
        (READ, "names/dataset/globex.x.v1.json", False),
    ],
)
def test_a_tenants_role_is_a_wall_whatever_a_worker_asks_for(
    action: str, path: str, allowed: bool, layout: Layout
) -> None:
    role = json.dumps(role_policy("s3://bucket/ft", layout, "acme"))
    assert may(role, action, path, layout=layout) is allowed


@pytest.mark.parametrize("asset", WORKED)
def test_a_role_publishes_what_its_workers_make_and_changes_nothing_that_is_published(
    tmp_path: Path, asset: str
) -> None:
    role, store = json.dumps(role_policy("s3://bucket/ft", Layout.BELOW, "acme")), Watched(str(tmp_path / "store"))
    made = publish(store, tmp_path / "files", asset)
    manifest = f"{made.address}/manifest.json"
    assert [path for action, path in store.asked if action == WRITE] == [f"{made.address}/w0001-1/rows.txt"]
    assert store.created == [manifest]
    assert [each for each in store.asked if not may(role, *each)] == []
    assert may(role, WRITE, manifest, if_none_match=True)
    assert not may(role, WRITE, manifest)
    assert not may(role, DELETE, manifest, if_none_match=True)
    assert not may(role, WRITE, manifest.replace("acme", "shared"), if_none_match=True)


def test_a_role_may_write_what_its_workers_make_and_no_more() -> None:
    assert set(WORKED) == set(WORK)
    assert CACHE not in WORKED


@pytest.mark.parametrize("asset", WORKED)
@pytest.mark.parametrize(("bucket", "tenant"), [("b" * 30, "t" * 20), ("b" * 63, "t" * 40)])
def test_long_names_leave_a_session_that_is_short_enough_and_leaves_no_tenant(
    asset: str, bucket: str, tenant: str
) -> None:
    """A bucket of 30 characters and a tenant of 20 were too much for an evaluation, which never started."""
    key = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
    spec = spec_of(tenant=tenant, asset=asset, store_url=f"s3://{bucket}/root")
    for statement in json.loads(session_of(spec, key))["Statement"]:
        root = f"arn:aws:s3:::{bucket}/root/tenants"
        own = (f"{root}/{tenant}/{asset}/{spec.address.fingerprint[:20]}", f"{root}/{tenant}/{CACHE}/")
        for resource in statement["Resource"]:
            if WRITE in statement["Action"] or DELETE in statement["Action"]:
                assert resource.startswith(own)
            elif READ in statement["Action"]:
                assert resource.startswith((f"{root}/{tenant}/", f"{root}/shared/"))


def test_a_url_that_leaves_no_room_for_a_policy_is_an_error() -> None:
    with pytest.raises(UserError, match="too long for the policy"):
        session_policy(spec_of(store_url=f"s3://bucket/{'x' * 900}"))


def test_workers_may_use_the_key_that_the_bucket_is_encrypted_with_and_no_other() -> None:
    key = "arn:aws:kms:eu-central-1:123456789012:key/0123-abcd"
    for policy in (json.loads(session_of(spec_of(), key)), role_policy("s3://bucket/ft", Layout.BELOW, "acme", key)):
        (statement,) = [each for each in policy["Statement"] if any(name.startswith("kms:") for name in each["Action"])]
        assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        assert statement["Resource"] == [key]
    assert "kms:" not in json.dumps(role_policy("s3://bucket/ft", Layout.BELOW, "acme"))
    assert "kms:" in session_of(spec_of(inputs=200), key)


def test_a_role_can_be_taken_by_one_service_account_only() -> None:
    policy = trust_policy(
        provider_arn="arn:aws:iam::1:oidc-provider/oidc.example",
        issuer="oidc.example",
        audience="sts.amazonaws.com",
        namespace="ft-acme",
        service_account="ft-worker",
    )
    (statement,) = policy["Statement"]
    assert statement["Condition"]["StringEquals"]["oidc.example:sub"] == "system:serviceaccount:ft-acme:ft-worker"


def test_other_stores_have_no_session_policy() -> None:
    assert session_policy(spec_of(store_url="gs://bucket/ft")) is None
    assert session_policy(spec_of(store_url="file:///srv/ft")) is None
