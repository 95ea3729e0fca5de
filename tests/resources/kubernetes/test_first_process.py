"""The first process of a container: what it owes to the worker, to the log and to processes left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def first(code: str, tmp_path: Path, *entrypoint: str) -> subprocess.Popen[bytes]:
    """One that runs ``code``; ``entrypoint`` is how Python starts it."""
    begun = [sys.executable, *(entrypoint or ("-m", "ft_resources.kubernetes.entrypoint"))]
    environment = {**os.environ, "FT_SCRATCH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*begun, sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, env=environment)


def test_output_is_the_containers_and_in_the_workers_log_to_the_last_word(tmp_path: Path) -> None:
    words = "print(os.environ['FT_WORKER_LOG']); print('x' * 200_000); print('last words')"
    code = f"import os; {words}; os.kill(os.getpid(), 9)"
    process = first(code, tmp_path)
    said, _ = process.communicate()
    assert said.endswith(b"last words\n")
    assert (tmp_path / "worker.log").read_bytes() == said
    assert said.startswith(str(tmp_path / "worker.log").encode())
    assert process.returncode == 137


def test_what_a_worker_quotes_commands_no_terminal_that_shows_the_pods_log(tmp_path: Path) -> None:
    said, _ = first("print('é \\x1b[2J \\u202e')", tmp_path).communicate()
    assert said.decode() == "é \ufffd[2J \ufffd\n"
    assert (tmp_path / "worker.log").read_text() == "é \x1b[2J \u202e\n"


@pytest.mark.parametrize("code", [0, 65, 79])
def test_it_ends_as_the_worker_ends(tmp_path: Path, code: int) -> None:
    process = first(f"raise SystemExit({code})", tmp_path)
    process.communicate()
    assert process.returncode == code


def test_a_request_to_stop_is_passed_on(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, lambda *_: exit(75)); print('ready'); time.sleep(600)"
    process = first(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75


@pytest.mark.subprocess
def test_a_process_that_outlives_the_worker_does_not_keep_the_pod(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    hasty = "from ft_resources.kubernetes import entrypoint; entrypoint._LEFT_BEHIND_S = 0.1; entrypoint.main()"
    process = first(code, tmp_path, "-c", hasty)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    assert process.wait() == 0
    os.kill(left, signal.SIGKILL)
