"""The tutorial as a reader follows it: every command of the page, in its order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site.build import ROOT
from ft_assets.control.lines.lines import read_line
from ft_resources.store_marker import open_store
from tests.warm_workers import environment

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("warm")]

PAGE = ROOT / "docs/start/tutorial.md"


def script() -> str:
    """The page's commands. What is installed is not installed again, and Dagster's UI, which never ends, is not opened:
    of ``make`` only what it would do is asked."""
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.S | re.M))
    text = re.sub(r"^make ", f"make -s -n -C {ROOT} ", text, flags=re.M)
    commands = 'set -euo pipefail\nft() { python -m tests.warm_workers.ft "$@"; }\n'
    return commands + text.replace(". .venv/bin/activate", "true")


def test_the_tutorial_ends_with_a_promoted_adapter(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (tmp_path / "ft_assets").symlink_to(ROOT / "ft_assets")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FT_", "DAGSTER_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env={**ours, **environment(), "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (record,) = read_line(open_store(str(tmp_path / ".ft/store")), "acme.tickets.support").records
    assert record.stage == "staging"
    assert (tmp_path / ".ft/tutorial/adapter/adapter_config.json").exists()
