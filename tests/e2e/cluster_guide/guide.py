"""The commands of docs/start/cluster.md, step by step in one shell whose variables and functions last."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from docs.site.build import ROOT

PAGE = ROOT / "docs" / "start" / "cluster.md"
# What runs on a real cluster only, by the beginning of the command, and why not here.
ELSEWHERE = {
    "python3.11 -m venv": "what it installs is installed",
    "docker ": "there is no Docker: tests/k8s/test_images.py builds the images where there is buildah",
    "aws s3api put-bucket-policy": "it refuses requests without TLS, which the S3 server of the tests does not have",
    "kubectl apply --server-side -f https://": "Kueue's own installation: the test cluster obeys its rules itself",
    "kubectl -n kueue-system wait": "the same",
    "helm repo add dagster": "Dagster's chart is on no index of packages: tests/k8s/chart.py has what we use of it",
    "helm repo add prometheus": "the operator of Prometheus: tests/k8s/test_monitoring.py asks a real Prometheus",
    "helm upgrade --install monitoring": "the same",
    "helm test": "it asks the installed services, and none is installed here: tests/k8s/test_helm.py runs what it runs",
    "kubectl -n ft-system rollout": "no controller makes pods of Deployments: the test starts what would run in them",
    "kubectl -n ft-system logs": "the same",
    "kubectl -n ft-system scale": "the same",
    "while read -r name replicas": "the same",
    "kubectl -n ft-system wait": "the same",
    "kubectl -n ft-system port-forward": "the same",
    "kubectl -n monitoring port-forward": "the same",
}
_STAND_INS = Path(__file__).parent / "stand_ins.sh"


def steps() -> dict[int, list[str]]:
    """The page's blocks of commands, by the number of their step."""
    parts = re.split(r"^## (?=\d+\. )", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {int(part.split(".")[0]): re.findall(r"^```sh\n(.*?)^```", part, re.S | re.M) for part in parts}


def commands(block: str) -> Iterator[str]:
    """Whole commands: a line with those that it continues in, and without what follows in a here-document."""
    plain = re.sub(r"<<'?END'?\n.*?^END$", "", block, flags=re.S | re.M).replace("\\\n", " ")
    yield from (line.strip() for line in plain.splitlines() if line.strip())


def elsewhere(command: str) -> str:
    """The entry of ELSEWHERE that a command begins with; empty if it is run here."""
    return next((known for known in ELSEWHERE if command.startswith(known)), "")


def here(block: str) -> str:
    """The block without what runs elsewhere; nothing of a block that builds images."""
    if any(command.startswith("docker ") for command in commands(block)):
        return ""
    joined = re.sub(r" *\\\n *", " ", block)
    return "".join(f"{line}\n" for line in joined.splitlines() if not elsewhere(line.strip()))


class Guide:
    """A reader in ``folder``, which has the checkout's files."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self._left = {(step, at) for step, blocks in steps().items() for at, block in enumerate(blocks) if here(block)}
        self._state = folder / "shell-state"
        self._state.touch()
        for name in ("k8s", "ft_assets"):
            (folder / name).symlink_to(ROOT / name)

    def step(self, number: int, *changes: tuple[str, str], block: int | None = None) -> str:
        """Run a step, or one block of it, with texts replaced that are the reader's own; what it printed."""
        places = range(len(steps()[number])) if block is None else [block]
        self._left -= {(number, at) for at in places}
        text = "\n".join(here(steps()[number][at]) for at in places)
        for old, new in changes:
            assert old in text, (number, old)
            text = text.replace(old, new)
        return self.run(text)

    def run(self, text: str) -> str:
        """Run commands after what ran before; what they printed."""
        code = f"set -aeuo pipefail\n. {_STAND_INS}\n. {self._state}\n{text}\n"
        code += f"{{ declare -px; declare -f; }} > {self._state}\n"
        done = subprocess.run(
            ["bash", "-c", code], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return done.stdout

    @property
    def left(self) -> set[tuple[int, int]]:
        """Step and place of the blocks that did not run yet."""
        return self._left

    def value(self, name: str) -> str:
        """A variable of the shell."""
        return self.run(f'printf %s "${name}"')
