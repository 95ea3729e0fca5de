"""The embedded server as a child of this process."""

import os
import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.http_server import HttpServer

_MODULE = "ft_assets.workers.serving.main"
_KEY = "FT_SERVING_KEY"
_GRACE_S = 5.0
_HEALTH_S = 2.0
_TOLD_BYTES = 4096
_MOST_LOG_BYTES = 4 << 20
_REMEDY = "What to do:"


class EngineProcess:
    """A server of the base in a folder, on a free port of this machine and with a key of its own.

    It ends with this process, however this one ends. ``log`` goes on with what it says; beyond 4 MiB a new one begins,
    and the last one stays beside it.
    """

    def __init__(self, name: str, folder: Path, *, base: str, model: str, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        key = secrets.token_urlsafe(32)
        self.endpoint = Endpoint(name=name, base=base, model=model, url=f"http://127.0.0.1:{port}", key=key)
        asked = ["--base", str(folder), "--port", str(port), "--served-model-name", model, "--parent", str(os.getpid())]
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # The earlier process's output may say why it died.
        with suppress(FileNotFoundError):
            if log.stat().st_size > _MOST_LOG_BYTES:
                log.replace(log.with_name(f"{log.name}.1"))
        with log.open("ab") as output:
            self._begin = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, *asked],
                env={**os.environ, _KEY: key},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C in a terminal is for the parent, which lets requests finish before it ends this one.
                process_group=0,
            )
        self._client = HttpServer(self.endpoint.url, key, answer_s=_HEALTH_S, connect_s=_HEALTH_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> str:
        """In words, how it ended; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        if code < 0:
            return f"it ended by signal {-code}"
        said = self._last_words()
        return f"it ended with status {code}" + (f": {said}" if said else "")

    def healthy(self) -> bool:
        """Whether it answers."""
        return self._client.healthy()

    def end(self) -> None:
        """End it, and what it is doing."""
        self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._client.close()

    def _last_words(self) -> str:
        try:
            data = self._log.read_bytes()[self._begin :][-_TOLD_BYTES:]
        except OSError:
            return ""
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        return next((line[:300] for line in reversed(lines) if line and not line.startswith(_REMEDY)), "")
