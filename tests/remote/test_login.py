"""Logging in: which server and key commands use, where they are kept, and who never sees the key."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ft_assets import api
from ft_assets.cli.main import app
from tests.cli.conftest import DATASET

pytestmark = pytest.mark.dagster
Key = Callable[..., str]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's configuration, of somebody whose shell names no store; the file of ``ft login`` in it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FT_STORE", raising=False)
    return tmp_path / "config" / "ft" / "login.json"


def ft(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_after_login_commands_go_to_the_server_until_logout(
    url: str, key: Key, config: Path, pair: tuple[str, str]
) -> None:
    server, text = url.removesuffix("/v1"), key()
    done = ft("login", url, stdin=f"{text}\n")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("bea (key ")
    assert done.stdout.endswith(f"): admin of acme at {server}\n")
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert json.loads(config.read_text()) == {"server": server, "key": text}
    assert ft("whoami").stdout == done.stdout
    assert DATASET in ft("dataset", "list").stdout
    assert ft("logout").stdout == "forgotten\n"
    assert not config.exists()
    assert ft("logout").stdout == "no login was saved\n"
    assert "on the store" in ft("whoami").stdout


def test_a_store_of_ones_own_comes_before_what_is_kept_and_a_server_that_is_named_before_both(
    url: str, key: Key, config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = key()
    monkeypatch.setenv("MY_KEY", text)
    assert ft("login", url, "--key-from-env", "MY_KEY").exit_code == 0
    monkeypatch.setenv("FT_STORE", str(tmp_path / "own"))
    assert f"on the store {tmp_path / 'own'}" in ft("whoami").stdout
    assert "FT_STORE is set in this shell" in ft("login", url, stdin=text).stderr
    monkeypatch.setenv("FT_SERVER", url)
    assert " at http://127.0.0.1" in ft("whoami").stdout
    monkeypatch.setenv("FT_SERVER", "https://other.example.com")
    other = ft("whoami")
    assert (other.exit_code, "there is no key for it" in other.stderr) == (2, True)


def test_a_key_that_the_server_does_not_know_is_not_kept(url: str, config: Path) -> None:
    refused = ft("login", url, stdin="ft-abcdefabcdef-secretsecretsecret")
    assert refused.exit_code == 2
    assert "API key" in refused.stderr
    assert "secretsecret" not in refused.output
    assert not config.exists()
    assert ft("login", url, stdin="").exit_code == 2
    nobody = ft("login", "http://127.0.0.1:9", stdin="ft-x")
    assert (nobody.exit_code, "the server does not answer" in nobody.stderr) == (2, True)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("http://ft.example.com", "has no TLS"),
        ("ft.example.com", "not the address of a server"),
        ("https://user:word@ft.example.com", "not the address of a server"),
        ("ftp://ft.example.com", "not the address of a server"),
    ],
)
def test_a_key_goes_to_no_address_where_others_could_read_it(server: str, said: str, config: Path) -> None:
    refused = ft("login", server, stdin="ft-secret")
    assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert not config.exists()


def test_a_kept_key_that_others_can_read_is_not_used(url: str, key: Key, config: Path) -> None:
    ft("login", url, stdin=key())
    config.chmod(0o644)
    refused = ft("dataset", "list")
    assert (refused.exit_code, "readable by others" in refused.stderr) == (2, True)
    config.write_text("{}")
    config.chmod(0o600)
    assert "not a file of ft login" in ft("dataset", "list").stderr
    assert ft("logout").exit_code == 0


def test_a_key_that_was_revoked_is_told(url: str, key: Key, config: Path, access: api.Access) -> None:
    text = key()
    ft("login", url, stdin=text)
    api.revoke_key(text.split("-")[1], access=access, actor="root")
    refused = ft("dataset", "list")
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)
    assert text not in refused.output


@pytest.mark.parametrize(
    ("kind", "body"), [("text/html", b"<p>hello</p>"), ("application/json", b"{}"), ("application/json", b"[]")]
)
def test_a_server_of_another_kind_is_told_as_one(kind: str, body: bytes, config: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        refused = ft("login", f"http://127.0.0.1:{server.server_port}", stdin="ft-x")
        server.shutdown()
    assert (refused.exit_code, "of the platform" in refused.stderr) == (2, True), refused.stderr
    assert not config.exists()


@pytest.mark.subprocess
def test_a_process_with_nothing_but_the_key_works_and_shows_it_to_nobody(
    url: str, key: Key, pair: tuple[str, str], tmp_path: Path
) -> None:
    text = key()
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MY_KEY": text}
    command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()"]
    login = [*command, "login", url, "--key-from-env", "MY_KEY"]
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    seen: list[bytes] = []
    with subprocess.Popen(
        login, env=own, cwd=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while process.poll() is None:
            seen.append(Path(f"/proc/{process.pid}/cmdline").read_bytes())
            time.sleep(0.01)
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 0, said
    del own["MY_KEY"]
    listed = subprocess.run([*command, "dataset", "list"], env=own, cwd=elsewhere, capture_output=True, text=True)
    assert (listed.returncode, DATASET in listed.stdout) == (0, True), listed.stderr
    assert any(b"login" in each for each in seen)
    assert not any(text.encode() in each for each in seen)
    assert text not in said + listed.stdout + listed.stderr
    # Neither a store nor Dagster's state was made where it was called.
    assert list(elsewhere.iterdir()) == []
