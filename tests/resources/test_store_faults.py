"""The store and what stands on it, with a bucket whose connections break, whose answers get lost, and that is slow."""

import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from obstore import exceptions as obstore_errors
from obstore.store import from_url

from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import StoreRefusal, StoreUnavailable
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.faults import Fault, HttpFaults, Refusal, first, http_faults, some
from tests.resources.small_work import at_once, request_for
from tests.s3_server import ENVIRONMENT, use_bucket


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[HttpFaults]:
    with http_faults(s3_endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(proxy: HttpFaults, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store behind the proxy, which is asked again without delay."""
    monkeypatch.setattr("ft_resources.idempotent_retry._WAITS_S", (0.0,) * 4)
    return Store(use_bucket(monkeypatch, proxy.url, f"test-{uuid.uuid4().hex[:8]}"))


@pytest.mark.parametrize("fault", Fault)
def test_who_wrote_a_record_knows_it_whatever_became_of_the_answer(
    bucket: Store, proxy: HttpFaults, fault: Fault
) -> None:
    proxy.plan = first(fault, "PUT", "names/x.json")
    assert bucket.create("names/x.json", b"mine")
    assert [each for each, _, _ in proxy.struck] == [fault]
    assert bucket.get("names/x.json") == b"mine"


@pytest.mark.parametrize("fault", Fault)
def test_who_came_second_is_told_so_even_with_the_same_bytes(bucket: Store, proxy: HttpFaults, fault: Fault) -> None:
    assert bucket.create("names/x.json", b"same")
    proxy.plan = first(fault, "PUT", "names/x.json")
    assert not bucket.create("names/x.json", b"same")
    proxy.plan = first(fault, "HEAD", "names/x.json")
    assert not bucket.create("names/x.json", b"same")


@pytest.mark.parametrize("size", [10, 20 << 20])
def test_a_create_only_write_is_one_request_that_says_so_however_large_it_is(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Roles may write manifests by such requests only (``s3_policy.role_policy``); parts would carry no header."""
    asked: list[tuple[str, str | None]] = []
    # That the condition is heeded is tried with the first object.
    answers = [200, 412, 200]

    class Bucket(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((f"{self.command} {self.path}", self.headers.get("If-None-Match")))
            self.send_response(200 if self.command == "HEAD" else answers.pop(0))
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}.items():
        monkeypatch.setenv(name, value)
    try:
        store = Store("s3://bucket/ft")
        assert store.create("names/x.json", b"")
        asked.clear()
        assert store.create("acme/dataset/f/manifest.json", bytes(size))
    finally:
        server.shutdown()
        server.server_close()
    assert asked == [("PUT /bucket/ft/acme/dataset/f/manifest.json", "*")]


CONFLICTS = [(409, "ConditionalRequestConflict"), (409, "OperationAborted"), (409, ""), (412, "PreconditionFailed")]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_exists_is_no_answer_where_nothing_is_there(bucket: Store, proxy: HttpFaults, conflict: Refusal) -> None:
    proxy.plan = first(conflict, "PUT", "names/x.json")
    assert bucket.create("names/x.json", b"mine")
    assert bucket.get("names/x.json") == b"mine"
    proxy.plan = first(conflict, "PUT", "names/x.json")
    assert not bucket.create("names/x.json", b"other")
    assert len(proxy.struck) == 2
    proxy.plan = lambda method, path, number: conflict if method == "PUT" else None
    with pytest.raises(StoreUnavailable, match="the store refused to write"):
        bucket.create("names/y.json", b"mine")


def test_a_conflict_is_no_answer_to_other_writes_either(bucket: Store, proxy: HttpFaults) -> None:
    proxy.plan = first((409, "OperationAborted"), "PUT", "t/a")
    bucket.put("t/a", b"x")
    proxy.plan = lambda method, path, number: (409, "OperationAborted") if method == "PUT" else None
    with pytest.raises(StoreUnavailable, match="the outcome is unknown"):
        bucket.put("t/a", b"y")


def test_a_bucket_that_lets_every_writer_win_is_refused_by_name(bucket: Store, proxy: HttpFaults) -> None:
    proxy.dropped.add("if-none-match")

    def refused(number: int) -> bool:
        with pytest.raises(StoreRefusal, match="ignores If-None-Match") as problem:
            bucket.create("names/x.json", str(number).encode())
        return problem.value.where == bucket.url

    assert at_once(16, refused) == [True] * 16
    with pytest.raises(StoreRefusal, match="ignores If-None-Match"):
        open_store(f"{bucket.url}/inner", create=True)


REFUSALS: list[tuple[Refusal, type[StoreUnavailable], str, str]] = [
    ((301, "PermanentRedirect"), StoreRefusal, "another region", "AWS_REGION"),
    ((400, "AuthorizationHeaderMalformed"), StoreRefusal, "another region", "AWS_REGION"),
    ((400, "ExpiredToken"), StoreRefusal, "token has expired", "Renew"),
    ((400, "EntityTooLarge"), StoreRefusal, "larger than it takes", "the limit"),
    ((400, "InvalidBucketName"), StoreRefusal, "no bucket can have this name", "FT_STORE"),
    ((400, "KMS.DisabledException"), StoreRefusal, "encrypted with cannot be used", "Enable"),
    ((400, "RequestTimeout"), StoreUnavailable, "connection to it broke", "run this again"),
    ((400, "BadDigest"), StoreUnavailable, "connection to it broke", "run this again"),
    ((403, "AllAccessDisabled"), StoreRefusal, "account is closed", "whoever pays"),
    ((400, "InvalidArgument"), StoreRefusal, "If-None-Match", "a server that does"),
    ((401, ""), StoreRefusal, "does not know these credentials", "the access key"),
    ((403, "InvalidAccessKeyId"), StoreRefusal, "does not know these credentials", "the access key"),
    ((403, "SignatureDoesNotMatch"), StoreRefusal, "does not know these credentials", "the access key"),
    ((403, "RequestTimeTooSkewed"), StoreRefusal, "clock is wrong", "clock"),
    ((403, "AccessDenied"), StoreRefusal, "may not do it", "role the right"),
    ((403, "QuotaExceeded"), StoreRefusal, "it is full", "Free"),
    ((404, "NoSuchBucket"), StoreRefusal, "no such bucket", "Create it"),
    ((404, ""), StoreRefusal, "no such bucket", "Create it"),
    ((405, "MethodNotAllowed"), StoreRefusal, "If-None-Match", "a server that does"),
    ((413, ""), StoreRefusal, "larger than it takes", "the limit"),
    ((429, ""), StoreUnavailable, "fewer requests", "Wait"),
    ((500, "InternalError"), StoreUnavailable, "has a fault", "Wait"),
    ((501, "NotImplemented"), StoreRefusal, "If-None-Match", "a server that does"),
    ((502, ""), StoreUnavailable, "has a fault", "Wait"),
    ((503, "SlowDown"), StoreUnavailable, "fewer requests", "Wait"),
    ((507, ""), StoreRefusal, "it is full", "Free"),
]


@pytest.mark.parametrize(("refusal", "kind", "what", "remedy"), REFUSALS)
def test_each_refusal_of_a_bucket_is_told_as_what_it_is(
    proxy: HttpFaults,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Refusal,
    kind: type[StoreUnavailable],
    what: str,
    remedy: str,
) -> None:
    # The client repeats what failed on the server for a minute.
    monkeypatch.setattr("ft_resources.store.from_url", partial(from_url, retry_config={"max_retries": 0}))
    bucket = Store(use_bucket(monkeypatch, proxy.url, f"test-{uuid.uuid4().hex[:8]}"))
    proxy.plan = lambda method, path, number: refusal
    with pytest.raises(StoreUnavailable, match=what) as problem:
        bucket.create("names/x.json", b"{}")
    assert type(problem.value) is kind
    assert remedy in problem.value.remedy
    # The client keeps the status of a redirection to itself.
    assert str(refusal[0]) in problem.value.what or refusal[0] == 301


@pytest.mark.parametrize("look", ["get", "find_json", "exists", "read", "names", "delete"])
def test_a_bucket_that_is_gone_is_not_taken_for_an_object_that_is(bucket: Store, proxy: HttpFaults, look: str) -> None:
    proxy.plan = lambda method, path, number: (404, "NoSuchBucket")
    with pytest.raises(StoreRefusal, match="no such bucket"):
        getattr(bucket, look)("names/x.json")


def test_a_store_without_credentials_says_so(proxy: HttpFaults, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Store(use_bucket(monkeypatch, proxy.url, f"test-{uuid.uuid4().hex[:8]}"))
    asked = "Error performing PUT http://169.254.169.254/latest/api/token in 3ms - HTTP error: error sending request"

    def denied(*_: object, **__: object) -> None:
        raise obstore_errors.GenericError(asked)

    monkeypatch.setattr("obstore.get", denied)
    monkeypatch.setattr("ft_resources.idempotent_retry._WAITS_S", (0.0,) * 4)
    with pytest.raises(StoreRefusal, match="no credentials"):
        bucket.get("names/x.json")


class _Refused(Exception):
    """What boto3 says of an answer of STS."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling the AssumeRoleWithWebIdentity operation: words")


@pytest.mark.parametrize(
    ("problem", "kind", "what"),
    [
        (_Refused("AccessDenied"), StoreRefusal, "does not trust this process's token"),
        (_Refused("IDPRejectedClaim"), StoreRefusal, "does not trust this process's token"),
        (_Refused("ExpiredTokenException"), StoreRefusal, "token has expired"),
        (_Refused("InvalidIdentityToken"), StoreRefusal, "token has expired or is not valid"),
        (_Refused("PackedPolicyTooLarge"), StoreRefusal, "more inputs"),
        (_Refused("RegionDisabledException"), StoreRefusal, "this region"),
        (_Refused("Throttling"), StoreUnavailable, "fewer requests"),
        (_Refused("IDPCommunicationError"), StoreUnavailable, "cannot be reached"),
        (FileNotFoundError(2, "No such file or directory", "/var/run/token"), StoreRefusal, "token of this process"),
        (TimeoutError("Connect timeout on endpoint"), StoreUnavailable, "cannot be reached"),
    ],
)
@pytest.mark.parametrize("look", ["get", "exists", "names"])
def test_a_role_that_a_worker_does_not_get_is_told_as_what_hinders_it(
    monkeypatch: pytest.MonkeyPatch, look: str, problem: Exception, kind: type[StoreUnavailable], what: str
) -> None:
    """Above all, a token that is missing is no object that is missing."""

    def refused() -> None:
        raise problem

    for name in ("FT_SESSION_POLICY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr("ft_resources.store.session_credentials", refused)
    with pytest.raises(StoreUnavailable, match=what) as told:
        getattr(Store("s3://bucket/root"), look)("names/x.json")
    assert type(told.value) is kind
    assert told.value.remedy


def test_an_object_of_another_tool_is_not_ours(bucket: Store, s3_endpoint: str) -> None:
    name, prefix = bucket.url.removeprefix("s3://").split("/")
    boto3.client("s3", endpoint_url=s3_endpoint).put_object(Bucket=name, Key=f"{prefix}/names/x.json", Body=b"{}")
    assert not bucket.create("names/x.json", b"{}")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_race_over_a_bad_network_has_one_winner_who_knows(bucket: Store, proxy: HttpFaults, seed: int) -> None:
    proxy.plan = some(0.3, seed, (Fault.RESET, Fault.LOST, Fault.ERROR, Fault.ERROR_AFTER))
    won = at_once(8, lambda number: bucket.create("names/x.json", str(number).encode()))
    proxy.plan = lambda method, path, number: None
    assert proxy.struck
    assert won.count(True) == 1
    assert bucket.get("names/x.json") == str(won.index(True)).encode()


@pytest.mark.parametrize("fault", Fault)
def test_every_other_operation_is_repeated(bucket: Store, proxy: HttpFaults, fault: Fault, tmp_path: Path) -> None:
    bucket.put("t/a", b"x" * 1000)
    source = tmp_path / "big.bin"
    # More than one part.
    source.write_bytes(bytes(range(256)) * 36_000)
    for operation in (
        lambda: bucket.put("t/a", b"x" * 1000),
        lambda: bucket.get("t/a") == b"x" * 1000 or pytest.fail("half of it"),
        lambda: bucket.find_json("t/absent.json") is None or pytest.fail("nothing is there"),
        lambda: bucket.exists("t/a") or pytest.fail("gone"),
        lambda: bucket.names("t") == ["a"] or pytest.fail("not listed"),
        lambda: bucket.tenants() == ["t"] or pytest.fail("not listed"),
        lambda: [each.path for each in bucket.entries("t")] == ["t/a"] or pytest.fail("not listed"),
        lambda: bucket.upload(source, "u/big.bin"),
        lambda: bucket.download("u/big.bin", tmp_path / "down.bin"),
        lambda: bucket.delete("t/a"),
    ):
        left = [fault]
        proxy.plan = lambda method, path, number, left=left: left.pop() if left else None
        operation()
        assert not left, "no request was struck"
    assert (tmp_path / "down.bin").read_bytes() == source.read_bytes()
    assert bucket.names("t") == []


def test_a_file_in_parts_is_there_although_s3_answered_200_with_an_error_first(
    bucket: Store, proxy: HttpFaults, tmp_path: Path
) -> None:
    """As CompleteMultipartUpload may: its answer begins before it has ended."""
    source = tmp_path / "big.bin"
    source.write_bytes(bytes(range(256)) * 36_000)
    proxy.plan = first((200, "InternalError"), "POST", "uploadId")
    bucket.upload(source, "u/big.bin")
    assert proxy.struck
    assert bucket.get("u/big.bin") == source.read_bytes()


def test_a_listing_that_breaks_off_is_taken_up_where_it_broke(bucket: Store, proxy: HttpFaults) -> None:
    paths = [f"t/{number}" for number in range(5)]
    for path in paths:
        bucket.put(path, b"")
    proxy.page = 3
    # The second page.
    proxy.plan = first(Fault.CUT, "GET", "continuation-token")
    assert sorted(entry.path for entry in bucket.entries("t")) == paths
    assert proxy.struck


def test_a_bucket_that_stays_away_is_an_error_and_no_answer(bucket: Store, proxy: HttpFaults) -> None:
    proxy.plan = lambda method, path, number: Fault.RESET if method == "PUT" else None
    with pytest.raises(StoreUnavailable, match="refused to write"):
        bucket.create("names/x.json", b"mine")
    proxy.plan = lambda method, path, number: None
    assert bucket.find_json("names/x.json") is None
    assert bucket.create("names/x.json", b"{}")


@pytest.mark.s3
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_work_over_a_bad_network_ends_with_one_whole_artifact(bucket: Store, proxy: HttpFaults, seed: int) -> None:
    """The caller and its worker both see one request in twenty fail."""
    proxy.plan = some(0.05, seed)
    launcher = LocalLauncher(module="tests.fake_worker")
    execution = Execution(store=bucket, launcher=launcher, poll_s=0.05, sleep=lambda s: time.sleep(0.05))
    request = request_for("write", text="x" * 100_000, runtime={"seconds": 0.5})
    results = at_once(2, lambda number: execution.run(request, actor=str(number)))
    proxy.plan = lambda method, path, number: None
    assert len(proxy.struck) >= 3
    artifact = Artifacts(bucket).get(request.address)
    assert all(result.artifact.manifest == artifact.manifest for result in results)
    assert artifact.read("text.txt") == b"x" * 100_000
    assert artifact.verify() == []
    manifests = [entry.path for entry in bucket.entries("acme/write") if entry.path.endswith("manifest.json")]
    assert len(manifests) == 1
    numbers = [attempt.number for attempt in attempts_at(bucket, request.address)]
    assert numbers == list(range(1, len(numbers) + 1))
