"""A pod's token becomes a session that may do what one attempt needs."""

import json
from pathlib import Path

import pytest
from obstore import exceptions as obstore_errors

from ft_resources import web_identity
from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store
from tests.s3_server import use_bucket


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_endpoint: str) -> str:
    """The store's URL, as a worker in a pod has it: no keys, but a token's file, a role and a policy."""
    url = use_bucket(monkeypatch, s3_endpoint, "web-identity")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    token = tmp_path / "token"
    token.write_text("header.payload.signature")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/ft-acme")
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "ft-checkpoint-x-0001")
    monkeypatch.setenv(web_identity.POLICY, json.dumps({"Version": "2012-10-17", "Statement": []}))
    return url


def test_a_pod_reads_and_writes_with_its_token_alone(pod: str) -> None:
    store = Store(pod)
    store.put("acme/x.json", b"{}")
    assert store.get("acme/x.json") == b"{}"
    assert not store.exists("acme/y.json")


def test_a_session_is_asked_for_with_the_policy_and_the_token_as_it_is_now(
    pod: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    asked: list[dict] = []
    real = boto3.client

    def client(*args: object, **options: object):
        made = real(*args, **options)
        exchange = made.assume_role_with_web_identity

        def noted(**parameters: str) -> dict:
            asked.append(parameters)
            return exchange(**parameters)

        made.assume_role_with_web_identity = noted
        return made

    monkeypatch.setattr(boto3, "client", client)
    (tmp_path / "token").write_text("renewed.token.here\n")
    found = web_identity.session_credentials()
    assert asked[0]["Policy"] == json.dumps({"Version": "2012-10-17", "Statement": []})
    assert asked[0]["WebIdentityToken"] == "renewed.token.here"
    assert found["expires_at"].tzinfo is not None


def test_what_s3_denies_to_a_narrow_session_is_absent_where_the_listing_says_so(
    pod: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 403, not 404, for a missing key to who may list a part of the bucket only."""
    store = Store(pod)
    store.put("acme/there.json", b"{}")

    def denied(*_: object, **__: object) -> None:
        raise obstore_errors.PermissionDeniedError("403 Forbidden")

    monkeypatch.setattr("obstore.get", denied)
    monkeypatch.setattr("obstore.head", denied)
    assert store.find_json("acme/missing.json") is None
    assert not store.exists("acme/missing.json")
    with pytest.raises(StoreUnavailable):
        store.get("acme/there.json")
    with pytest.raises(StoreUnavailable):
        store.exists("acme/there.json")
