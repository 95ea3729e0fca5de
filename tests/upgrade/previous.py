"""Leave a store as the previous release leaves it in the middle of its work: run in a checkout of that release.

    git worktree add /tmp/previous COMMIT && cd /tmp/previous
    python - < …/tests/upgrade/previous.py …/tests/fixtures/store_in_flight.tar.gz

The store has two submissions: the training of one was killed after a save, together with everything that watched it,
and the other waits. Only what every release has is called: its command line, and the project of its own tests.
"""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.getcwd())

from tests.e2e.project import make_project


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        project = make_project(Path(scratch) / "project")
        environment = {**project.environment, "FT_ACTOR": "ann", "FT_TENANTS": str(project.folder / "tenants.yaml")}

        def ft(*arguments: object) -> None:
            command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()", *map(str, arguments)]
            subprocess.run(command, check=True, env=environment, cwd=project.folder)

        ft("dataset", "add", project.dataset(), "--name", "acme.colours")
        ft("recipe", "add", project.recipe("half.v1", steps=400))
        ft("recipe", "add", project.recipe("waits.v1", steps=8))
        code = "from ft_assets.cli.main import app; app()"
        running = subprocess.Popen(
            [sys.executable, "-c", code, "run", "acme.colours.v1", "half.v1"],
            env=environment, cwd=project.folder, start_new_session=True,
        )  # fmt: skip
        try:
            _wait_for_a_save(project.folder / "store")
        finally:
            _kill_all_of(project.folder)
            running.wait()
        ft("submit", "acme.colours.v1", "waits.v1")
        _forget_the_machine(project.folder / "store", {scratch: "/previous", os.getcwd(): "/previous"})
        with out.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(project.folder / "store", "store")


def _wait_for_a_save(store: Path) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        for progress in store.rglob("progress.json"):
            found = json.loads(progress.read_text() or "{}")
            if found.get("phase") == "training" and int(found.get("done", 0)) >= 40:
                return
        time.sleep(0.02)
    raise SystemExit("no training came to a save")


def _forget_the_machine(store: Path, paths: dict[str, str]) -> None:
    """Its name and folders, which are in records of attempts and in no artifact."""
    for file in [*store.rglob("attempts/*/*.json"), *store.rglob("attempts/*/log-*.txt"), *store.glob("open_*/*/*")]:
        text = file.read_text()
        for path, other in paths.items():
            text = text.replace(path, other)
        text = re.sub(r'"process":"\S+ \S+', '"process":"previous 0', text)
        text = re.sub(r"/tmp/ft-worker-\w+|(?<=[ \"])/\S*(?=/\.venv/)", "/previous", text)
        file.write_text(text.replace(f'"host":"{socket.gethostname()}"', '"host":"previous"'))


def _kill_all_of(folder: Path) -> None:
    """Every process that has the project's folder in its environment."""
    for process in Path("/proc").iterdir():
        try:
            named = process.name.isdigit() and str(folder).encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if named and int(process.name) != os.getpid():
            os.kill(int(process.name), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
