"""A container as a process of this machine.

What stands for what: the image is this machine's Python and checkout (``IMAGE``), whatever its name, except that names
under ``.invalid/`` cannot be pulled, here as anywhere. A volume is a folder; in commands, arguments and the values of
variables a path that begins with a mount path becomes the folder's. A pod has a loopback address of its own, and the
DNS names of its siblings in a headless Service are replaced by theirs. A container that takes more memory than its
limit is killed.
"""

import os
import re
import signal
import subprocess
import sys
import time
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster.objects import SECRETS, SERVICES, Object, Objects, now

_PYTHON = str(Path(sys.executable).parent)
IMAGE = {
    "PATH": f"{_PYTHON}:{os.environ['PATH']}",
    "LANG": "C.UTF-8",
}
REFUSED_START = "TEST_REFUSED_START"
"""A container whose environment has it cannot be started, and its runtime says the value."""
NICE = "TEST_NICE"
"""A container whose environment has it gives way to all else on this machine, by so much (``nice``)."""
_UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_LARGER = {True: ("Ki", "Mi", "Gi", "Ti"), False: ("k", "M", "G", "T")}


def quantity(text: Any) -> float:
    """ "500m" is 0.5, "2Gi" is 2147483648."""
    number, unit = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", str(text)).groups()  # type: ignore[union-attr]
    return float(number) * (_UNITS[unit] if unit else 1)


def written(amount: float, binary: bool = False) -> str:
    """A quantity as Kubernetes writes it: the largest unit, by 1,024 or 1,000, that leaves it whole."""
    if amount != int(amount):
        return f"{round(amount * 1000)}m"
    whole, units, step = int(amount), iter(_LARGER[binary]), 1024 if binary else 1000
    unit = ""
    while whole and whole % step == 0 and (larger := next(units, "")):
        whole, unit = whole // step, larger
    return f"{whole}{unit}"


def canonical(text: Any) -> str:
    """As an API server gives a quantity back: "2000m" is "2", "1.5Gi" is "1536Mi"."""
    return written(quantity(text), str(text).endswith("i"))


def address(namespace: str, host: str, subdomain: str) -> str:
    """The loopback address of a pod, known before it runs, as a name is."""
    value = zlib.crc32(f"{host}.{subdomain}.{namespace}".encode())
    return f"127.{value % 254 + 1}.{value // 254 % 254 + 1}.{value // 64516 % 254 + 1}"


class Container:
    """One container of a pod, from start to end. ``folder`` is the pod's."""

    def __init__(self, objects: Objects, pod: Object, spec: Object, folder: Path, image: dict[str, str]) -> None:
        self._objects, self._pod, self.spec, self._folder = objects, pod, spec, folder
        self.name: str = spec["name"]
        self.log = folder / f"{self.name}.log"
        self.terminated: Object | None = None
        self.started_at = ""
        self._image = image
        self._oom, self._weigh_at = False, 0.0
        self._killed_at = float("inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._limit = quantity(spec["resources"].get("limits", {}).get("memory", "1000Ti"))

    def start(self) -> None:
        environment = {**self._image, "HOME": str(self._folder), "HOSTNAME": self._host()}
        for entry in self.spec.get("envFrom", []):
            environment |= self._secret(entry["secretRef"]["name"])
        for entry in self.spec.get("env", []):
            value = self._source(entry["valueFrom"]) if "valueFrom" in entry else entry.get("value", "")
            if value is not None:
                environment[entry["name"]] = self._placed(_expand(value, environment))
        words = [*self.spec.get("command", []), *self.spec.get("args", [])]
        command = [self._placed(_expand(word, environment)) for word in words]
        if NICE in environment:
            command = ["nice", "-n", environment[NICE], *command]
        self.started_at = now()
        try:
            if REFUSED_START in environment:
                raise OSError(environment[REFUSED_START])
            with self.log.open("wb") as output:
                self._process = subprocess.Popen(
                    command,
                    cwd=self._placed(self.spec.get("workingDir", "")) or self._folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            if self._killed_at != float("inf"):
                self._process.send_signal(signal.SIGTERM)
        except (OSError, IndexError) as error:
            self._end(128, "StartError", f"failed to create containerd task: {error}")

    def poll(self) -> bool:
        """Whether it runs; reaps it, and kills what takes too much memory or has had its grace."""
        if self._process is None or self.terminated:
            return False
        code = self._process.poll()
        if code is None:
            if time.monotonic() > self._weigh_at:
                self._weigh_at = time.monotonic() + 0.5
                if self._memory() > self._limit:
                    self._oom = True
            if self._oom or self._objects.clock() >= self._killed_at:
                self.kill()
            return True
        self.kill()
        code = 128 - code if code < 0 else code
        tail = self.log.read_bytes()[-2048:].decode(errors="replace")
        message = tail if code and self.spec["terminationMessagePolicy"] == "FallbackToLogsOnError" else ""
        self._end(code, "OOMKilled" if self._oom else "Error" if code else "Completed", message)
        return False

    def ask_to_stop(self, grace_s: float) -> None:
        """SIGTERM to the main process; SIGKILL to all after ``grace_s`` seconds."""
        if self._process and self._killed_at == float("inf"):
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        self._killed_at = min(self._killed_at, self._objects.clock() + grace_s)

    def kill(self, out_of_memory: bool = False) -> None:
        if out_of_memory:
            self._oom = True
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """To all its processes."""
        if self._process:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def hold(self, still: bool) -> None:
        """Let all that works in the pod's folder stand still, or go on: its processes, and forks in their place."""
        for place in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if place.resolve().is_relative_to(self._folder):
                    os.kill(int(place.parent.name), signal.SIGSTOP if still else signal.SIGCONT)

    def status(self, waiting: str, message: str = "") -> Object:
        """Its entry in containerStatuses; ``waiting`` is the reason where it has not started."""
        state: Object = {"waiting": {"reason": waiting} | ({"message": message} if message else {})}
        if self.terminated:
            state = {"terminated": self.terminated}
        elif self.started_at:
            state = {"running": {"startedAt": self.started_at}}
        running = "running" in state
        entry = {"name": self.name, "state": state, "lastState": {}, "ready": running, "restartCount": 0}
        entry |= {"image": self.spec["image"], "imageID": "", "started": running}
        return entry | ({} if "waiting" in state else {"containerID": self._id()})

    def read(self, follow: bool, tail: int | None) -> Iterator[bytes]:
        """Its log from the beginning or the last ``tail`` lines; following it, until it has ended."""
        with self.log.open("rb") as file:
            if tail is not None:
                lines = file.read().splitlines(keepends=True)
                yield b"".join(lines[len(lines) - min(tail, len(lines)) :])
            while True:
                ended = self.terminated is not None or not follow
                yield (data := file.read())
                if ended and not data:
                    return
                time.sleep(0 if data else 0.05)

    def _end(self, code: int, reason: str, message: str = "") -> None:
        ended = {"exitCode": code, "reason": reason} | ({"message": message} if message else {})
        self.terminated = ended | {"startedAt": self.started_at, "finishedAt": now(), "containerID": self._id()}

    def _id(self) -> str:
        return f"process://{self._pod['metadata']['uid']}-{self.name}"

    def _memory(self) -> int:
        """Bytes that the processes of its session hold, where there is a /proc."""
        pages = 0
        for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
            with suppress(OSError):
                if self._process and os.getsid(int(pid)) == self._process.pid:
                    pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _host(self) -> str:
        return str(self._pod["spec"].get("hostname", self._pod["metadata"]["name"]))

    def _source(self, source: Object) -> str | None:
        """What a variable is taken from; None for a secret's key that is not there and needs not be."""
        meta = self._pod["metadata"]
        if reference := source.get("fieldRef"):
            path = reference["fieldPath"]
            if keyed := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
                return str(meta.get(keyed[1], {}).get(keyed[2], ""))
            item: Any = self._pod
            for part in path.split("."):
                item = item.get(part, "")
            return str(item)
        wanted = source["secretKeyRef"]
        if wanted.get("optional"):
            there = self._objects.find(SECRETS, self._pod["metadata"]["namespace"], wanted["name"])
            if there is None or wanted["key"] not in there.get("data", {}):
                return None
        return self._secret(wanted["name"])[wanted["key"]]

    def _secret(self, name: str) -> dict[str, str]:
        item = self._objects.get(SECRETS, self._pod["metadata"]["namespace"], name)
        return {key: b64decode(value).decode() for key, value in item.get("data", {}).items()}

    def _placed(self, text: str) -> str:
        """``text`` with mount paths as folders and siblings' names as addresses."""
        names = {mount["mountPath"].rstrip("/"): mount["name"] for mount in self.spec.get("volumeMounts", [])}

        def folder(found: re.Match[str]) -> str:
            at = self._folder / "volumes" / names[found[1]]
            at.mkdir(parents=True, exist_ok=True)
            return str(at.resolve())

        if names:
            # All at once, as a folder of this machine may begin with the path of another mount.
            paths = "|".join(re.escape(path) for path in sorted(names, key=len, reverse=True))
            text = re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", folder, text)
        namespace, subdomain = self._pod["metadata"]["namespace"], self._pod["spec"].get("subdomain", "")
        service = self._objects.find(SERVICES, namespace, subdomain) if subdomain else None
        if service is None or service["spec"].get("clusterIP") != "None":
            return text
        siblings = rf"\b([a-z0-9-]+)\.{subdomain}(\.{namespace}(\.svc(\.cluster\.local\.?)?)?)?(?![\w.-])"
        return re.sub(siblings, lambda found: address(namespace, found[1], subdomain), text)


def _expand(text: str, environment: dict[str, str]) -> str:
    """$(NAME) is the variable's value where there is one."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), text)


def make_volumes(pod: Object, folder: Path, node: Path) -> None:
    """The pod's volumes as folders: hostPath of the node, all others its own and empty."""
    for volume in pod["spec"].get("volumes", []):
        at = folder / "volumes" / volume["name"]
        at.parent.mkdir(parents=True, exist_ok=True)
        if host := volume.get("hostPath"):
            (node / host["path"].lstrip("/")).mkdir(parents=True, exist_ok=True)
            at.symlink_to(node / host["path"].lstrip("/"))
        else:
            at.mkdir()
