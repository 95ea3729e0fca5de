"""Whether the drills of a restore, of an upgrade and of a training that changes its size end well: the tests that are
those drills, run once more."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DRILLS = {
    "restore_equal": "tests/k8s/test_backup.py",
    "upgrade_in_flight_ok": "tests/upgrade/test_upgrade.py",
    "elastic_bytes_equal": "tests/e2e/test_elastic.py",
}


def drill(key: str) -> bool:
    """Run the drill of that figure; its output goes to stderr."""
    command = [sys.executable, "-m", "pytest", "-q", DRILLS[key]]
    return subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode == 0
