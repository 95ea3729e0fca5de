"""A real vLLM as its operators start it, with this project's plug-in."""

import os
import socket
import subprocess
import time
import tomllib
from pathlib import Path

import psutil

from ft_resources.serving.vllm_server import VllmServer
from tools.architecture import ROOT

KEY = "a-key-of-the-tests"
# Of a machine that does other things too.
_START_S, _END_S = 900.0, 120.0
_SETTINGS = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_OPTIONS = ("--enforce-eager", "--block-size", "32", "--max-model-len", "512")
_LORA = ("--enable-lora", "--max-loras", "2", "--max-cpu-loras", "2", "--max-lora-rank", "16")


class RealVllm:
    """``client`` asks it, which answers once ``start`` returns. Its log is in ``folder``."""

    def __init__(
        self, base: Path, name: str, folder: Path, dtype: str, *, lora: bool = True, **environment: str
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.dtype, self.url, self.log = dtype, f"http://127.0.0.1:{port}", folder / "vllm.log"
        module = (os.environ["FT_VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server")
        where = ("--host", "127.0.0.1", "--port", str(port), "--api-key", KEY)
        model = ("--model", str(base), "--served-model-name", name, "--dtype", dtype)
        self._command = [*module, *where, *model, *_OPTIONS, *(_LORA if lora else ())]
        self._environment = {**os.environ, **_SETTINGS, "PYTHONPATH": f"{installed(folder)}:{ROOT}", **environment}
        self.client = VllmServer(self.url, KEY)

    def start(self) -> None:
        """Start it, for the first time or as a cluster does when it ended, and wait until it answers."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=self.log.parent, env=self._environment, stdout=output, stderr=output
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while not self.client.healthy():
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.5)

    def kill_engine(self) -> None:
        """SIGKILL to the process that computes, as for its memory. The one that answers then ends by itself; returns
        once it did."""
        for process in psutil.Process(self._process.pid).children(recursive=True):
            process.kill()
        self._process.wait(_END_S)

    def close(self) -> None:
        self.client.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def installed(folder: Path) -> Path:
    """What ``pip install --no-deps`` leaves of this project beside its code: entry points, by which vLLM finds it."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = folder / "site" / "ft_platform-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ft-platform\nVersion: 0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in each.items()) for group, each in points.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    return info.parent
