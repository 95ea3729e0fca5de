"""The door to the outside, against real servers."""

import email
import email.policy
import hashlib
import hmac
import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_resources.mail import compose
from ft_resources.messages import EmailTarget, Message, NotSent, WebhookTarget
from ft_resources.notifier import Notifier
from tests.control.notices.servers import DRIPS, HANGS, mail_server, make_certificate, webhook

SECRET = "a key of thirty-two characters.."
MESSAGE = Message(id="e" * 32, payload={"kind": "accepted", "n": 1}, subject="it was accepted", text="It was.\nÜ\n")


def notifier(timeout_s: float = 600.0, **environment: str) -> Notifier:
    return Notifier(environment={"FT_WEBHOOK_ACME": SECRET, **environment}.get, timeout_s=timeout_s)


def hook_of(url: str) -> WebhookTarget:
    return WebhookTarget(url=url, secret_env="FT_WEBHOOK_ACME")


def test_a_webhook_gets_the_payload_with_a_signature_that_covers_body_and_time() -> None:
    with webhook() as hook:
        notifier(FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(hook.url), MESSAGE)
    ((headers, body),) = hook.got
    assert json.loads(body) == MESSAGE.payload
    assert headers["FT-Event-Id"] == MESSAGE.id
    at, mac = (part.partition("=")[2] for part in headers["FT-Signature"].split(","))
    assert mac == hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("hosts", ["", "example.org", "localhost"])
def test_plain_http_goes_nowhere_but_to_hosts_that_are_allowed(hosts: str) -> None:
    with webhook() as hook:
        with pytest.raises(NotSent, match="plain HTTP"):
            notifier(FT_NOTIFY_HOSTS=hosts).send(hook_of(hook.url), MESSAGE)
    assert hook.got == []


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"),
        # Through a NAT64 gateway, where clouds keep credentials; and a 6to4 disguise of 10.0.0.1.
        *("[64:ff9b::a9fe:a9fe]", "[2002:a00:1::]"),
    ],
)
def test_https_does_not_reach_into_our_own_network(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: object) -> socket.socket:
        raise AssertionError("it was connected to")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotSent, match="not a public address"):
        notifier().send(hook_of(f"https://{host}/x"), MESSAGE)


def test_https_needs_a_certificate_of_that_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, other = make_certificate(tmp_path), make_certificate(tmp_path, "example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(good[0]))
    with webhook(certificate=good) as hook:
        notifier(FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(hook.url), MESSAGE)
        assert len(hook.got) == 1
    monkeypatch.setenv("SSL_CERT_FILE", str(other[0]))
    with webhook(certificate=other) as hook:
        with pytest.raises(NotSent, match="certificate"):
            notifier(FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(hook.url), MESSAGE)
        assert hook.got == []


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_anything_but_success_is_a_failure_and_redirects_are_not_followed(status: int) -> None:
    with webhook(status, 200) as hook:
        with pytest.raises(NotSent, match=f"it answered {status}"):
            notifier(FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(hook.url), MESSAGE)
        assert len(hook.got) == 1


@pytest.mark.parametrize("how", [HANGS, DRIPS])
def test_a_server_that_never_ends_its_answer_is_cut(how: int) -> None:
    with webhook(how) as hook:
        with pytest.raises(NotSent, match="no answer"):
            notifier(0.5, FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(hook.url), MESSAGE)


def test_an_error_tells_neither_secret_nor_path() -> None:
    with webhook(500) as hook:
        with pytest.raises(NotSent) as caught:
            notifier(FT_NOTIFY_HOSTS="127.0.0.1").send(hook_of(f"{hook.url}/token-of-somebody"), MESSAGE)
    assert SECRET not in str(caught.value)
    assert "token-of-somebody" not in str(caught.value)


@pytest.mark.parametrize("secret", ["", "short"])
def test_nothing_is_sent_without_a_key(secret: str) -> None:
    with webhook() as hook:
        with pytest.raises(NotSent, match="FT_WEBHOOK_ACME"):
            notifier(FT_NOTIFY_HOSTS="127.0.0.1", FT_WEBHOOK_ACME=secret).send(hook_of(hook.url), MESSAGE)
    assert hook.got == []


def smtp(port: int, **more: str) -> dict[str, str]:
    return {"FT_SMTP_HOST": "127.0.0.1", "FT_SMTP_PORT": str(port), "FT_SMTP_FROM": "ft@example.org", **more}


def test_a_mail_goes_out_over_starttls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with mail_server(certificate) as box:
        notifier(**smtp(box.port)).send(EmailTarget(to=("ann@example.org", "bob@example.org")), MESSAGE)
    assert box.secured == 1
    ((to, data),) = box.got
    assert to == ["ann@example.org", "bob@example.org"]
    mail = email.message_from_bytes(data, policy=email.policy.default)
    assert mail["Subject"] == MESSAGE.subject
    assert mail["Message-ID"] == f"<{MESSAGE.id}@example.org>"
    assert mail.get_content().replace("\r\n", "\n") == MESSAGE.text


def test_no_mail_goes_out_in_the_clear_unless_that_is_said() -> None:
    with mail_server() as box:
        with pytest.raises(NotSent, match="SMTPNotSupportedError"):
            notifier(**smtp(box.port)).send(EmailTarget(to=("ann@example.org",)), MESSAGE)
        assert box.got == []
        with pytest.raises(NotSent, match="never sent without STARTTLS"):
            notifier(**smtp(box.port, FT_SMTP_STARTTLS="off", FT_SMTP_USER="ann")).send(
                EmailTarget(to=("ann@example.org",)), MESSAGE
            )
        notifier(**smtp(box.port, FT_SMTP_STARTTLS="off")).send(EmailTarget(to=("ann@example.org",)), MESSAGE)
        assert len(box.got) == 1
        box.refuses = True
        with pytest.raises(NotSent, match="451"):
            notifier(**smtp(box.port, FT_SMTP_STARTTLS="off")).send(EmailTarget(to=("ann@example.org",)), MESSAGE)


@given(subject=st.text(max_size=300), text=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_no_subject_or_text_can_add_a_header(subject: str, text: str) -> None:
    subject = subject.encode(errors="ignore").decode()
    mail = compose("ft@example.org", ["ann@example.org"], Message(id="e", payload={}, subject=subject, text=text))
    parsed = email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
    expected = {"from", "to", "subject", "date", "message-id", "auto-submitted"}
    technical = {"content-type", "content-transfer-encoding", "mime-version"}
    assert {name.lower() for name in parsed.keys()} <= expected | technical  # noqa: SIM118
    assert parsed["To"] == "ann@example.org"
