"""Serving on this machine: ``ft serve`` with an embedded engine of the demo's base, beside an engine that is asked
directly.

``python -m benchmarks serving [names=1000] [asks=300] [clients=8] [quantized=1]``; servers are processes of their own.
With ``quantized=0`` no quantised format is made and gated, which takes as long as all else.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import httpx
import psutil

import ft_assets.demo
from benchmarks import canary, parity, quantized
from benchmarks.router import Door, Rates, cpu_ms, rates
from benchmarks.table import Figure, goal_figure
from ft_assets import api
from ft_resources.artifacts import Artifact
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling
from ft_resources.store_marker import open_store
from tests.server.chat_world import LINE, Line
from tests.workers.serving.world import make_adapter

_BASE = Path(ft_assets.demo.__file__).parent / "base"
_MODELS = Path(ft_assets.demo.__file__).parent / "models.yaml"
_UNLIMITED = "tiers: {default: {requests_per_minute: null, requests_per_minute_of_one: null}}\n"
_API, _ENGINE, _KEY = 8221, 8222, "of-the-benchmark"
_PROMPT = list(range(100, 140))
_SWAPS, _TOKENS = 4, 32
# More than the 32 requests that the engine computes at once: what is measured is then its throughput. With fewer all of
# them wait for the router at the same time, and the engine for them.
_FULL = 48


def measure(*options: str) -> list[Figure]:
    """Run everything; takes some minutes."""
    asked = {"names": 1000, "asks": 300, "clients": 8, "quantized": 1}
    asked |= {name: int(number) for name, number in (option.split("=") for option in options)}
    with tempfile.TemporaryDirectory(prefix="ft-serving-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        _prepare(folder)
        line = Line(SimpleNamespace(store=open_store(os.environ["FT_STORE"], create=True), folder=folder))  # type: ignore[arg-type]
        adapters = [_adapter(line, folder, number) for number in range(3)]
        _, key = api.create_key("acme", role="member", actor="bench")
        serve = stack.enter_context(_process("ft_assets.cli.main:app", "serve", "--port", str(_API)))
        ours = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{_API}/v1",
                headers={"authorization": f"Bearer {key}"},
                timeout=120,
                trust_env=False,
            )
        )
        _until(lambda: ours.get("/models").is_success)
        swaps = _swaps(line, adapters, ours)
        engine = stack.enter_context(_engine())
        one = f"{LINE}@{adapters[0].digest[:16]}"
        engine.load(one, adapters[0].folder(folder / "unused"))
        added = _added_ms(engine, one, ours, asked["asks"])
        routed = Door(url=f"http://127.0.0.1:{_API}/v1/completions", key=key, model=LINE)
        direct = Door(url=f"http://127.0.0.1:{_ENGINE}/v1/completions", key=_KEY, model=one)
        body = {"prompt": _PROMPT, "max_tokens": _TOKENS, "temperature": 0}
        with _cores_apart(serve):
            full = rates(routed, direct, clients=_FULL, body=body)
            some = rates(routed, direct, clients=asked["clients"], body=body)
        whole_ms, stream_ms = (cpu_ms(routed, serve, {**body, "stream": stream}) for stream in (False, True))
        names = _names(engine, adapters, folder, asked["names"])
    return [
        _at_most("promotion_to_served_s", "promotion to its first answer, s", swaps.promoted_s, 10),
        _at_most("rollback_to_served_s", "rollback to its first answer, s", swaps.rolled_back_s, 5),
        _at_most("swap_dropped_requests", f"failed of {swaps.answers} requests meanwhile", swaps.failed, 0),
        _at_most("router_added_ms_p99", "added to the first byte, p99, ms", added[1], 5),
        _at_most("router_added_ms_p50", "the same, median", added[0], 5),
        _beside("router_throughput_ratio", f"answers a second, {_FULL} clients, engines on a core of their own", full),
        _beside("router_throughput_ratio_of_some", f"the same, {asked['clients']} clients", some),
        goal_figure("router_cpu_ms", f"the router's processor time of {_TOKENS} tokens, ms", whole_ms, None),
        goal_figure("router_cpu_ms_stream", "the same of a stream", stream_ms, None),
        goal_figure("adapters_served", "names that answered on an engine that holds 8", names, asked["names"]),
        *parity.measure(),
        *(quantized.measure() if asked["quantized"] else ()),
        *(each for each in canary.measure() if each.key in canary.KEYS),
    ]


def _prepare(folder: Path) -> None:
    copytree(_BASE, folder / "base")
    (folder / "tenants.yaml").write_text(_UNLIMITED)
    os.environ.update(
        FT_STORE=str(folder / "store"),
        FT_STATE=str(folder / "state"),
        FT_CACHE=str(folder / "cache"),
        FT_TENANTS=str(folder / "tenants.yaml"),
        FT_MODELS=str(_MODELS),
        DAGSTER_HOME=str(folder),
        FT_TRACKING="off",
        OMP_NUM_THREADS="1",
    )
    Path(os.environ["FT_STATE"]).mkdir()


def _adapter(line: Line, folder: Path, number: int) -> Artifact:
    made = make_adapter(folder / f"made-{number}", folder / "base", seed=number, std=0.05)
    return line.adapter(number, template=None, folder=made)


@dataclass
class _Swaps:
    """What was seen while adapters moved: the slowest promotion and rollback, and answers to those who asked."""

    promoted_s: float = 0.0
    rolled_back_s: float = 0.0
    answers: int = 0
    failed: int = 0
    seen: dict[str, float] = field(default_factory=dict)


def _swaps(line: Line, adapters: Sequence[Artifact], client: httpx.Client) -> _Swaps:
    found, ended = _Swaps(), threading.Event()
    line.promote(adapters[0])
    # The first promotion starts the engine, which is not what is measured.
    _until(lambda: _ask(client).is_success, 180)

    def asks() -> None:
        while not ended.is_set():
            answer = _ask(client)
            found.answers += 1
            found.failed += not answer.is_success
            if answer.is_success:
                found.seen[answer.json()["system_fingerprint"]] = time.monotonic()

    def seconds(adapter: Artifact, kind: str) -> float:
        print_of = f"fp_{adapter.digest[:16]}"
        began = time.monotonic()
        line.promote(adapter, kind=kind)
        _until(lambda: found.seen.get(print_of, 0.0) > began)
        return found.seen[print_of] - began

    threads = [threading.Thread(target=asks) for _ in range(2)]
    for thread in threads:
        thread.start()
    for swap in range(_SWAPS):
        found.promoted_s = max(found.promoted_s, seconds(adapters[1 + swap % 2], "promotion"))
        time.sleep(3)
        found.rolled_back_s = max(found.rolled_back_s, seconds(adapters[0], "rollback"))
        time.sleep(3)
    ended.set()
    for thread in threads:
        thread.join()
    return found


def _added_ms(engine: HttpServer, name: str, client: httpx.Client, asks: int) -> tuple[float, float]:
    """Milliseconds until the first piece through the router, less those directly: of the medians, and of the p99."""
    body = {"model": name, "prompt": _PROMPT, "max_tokens": 2, "temperature": 0, "stream": True}

    def routed() -> None:
        with client.stream("POST", "/completions", json=body) as answer:
            for _ in answer.iter_lines():
                pass

    def direct() -> None:
        for _ in engine.stream(name, _PROMPT, Sampling(max_tokens=2)):
            pass

    through, straight = [], []
    # In turn, as the machine's load changes.
    for _ in range(asks):
        through.append(_timed(routed))
        straight.append(_timed(direct))
    at = (asks // 2, int(asks * 0.99))
    median, p99 = ((sorted(through)[place] - sorted(straight)[place]) * 1000 for place in at)
    return median, p99


def _names(engine: HttpServer, adapters: Sequence[Artifact], folder: Path, names: int) -> int:
    """How many of so many names answer; each is asked once, in an order that no cache of 8 foresees."""
    folders = [adapter.folder(folder / "unused") for adapter in adapters]
    for number in range(names):
        # Other bytes for each, so that each takes a place of its own.
        own = copytree(folders[number % len(folders)], folder / "many" / str(number))
        settings = own / "adapter_config.json"
        settings.write_text(settings.read_text() + "\n" * number)
        engine.load(f"name-{number}", own)
    answered = 0
    for number in sorted(range(names), key=lambda each: each * 7919 % names):
        answered += bool(engine.complete(f"name-{number}", _PROMPT, Sampling(max_tokens=1)).tokens)
    return answered


def _ask(client: httpx.Client) -> httpx.Response:
    return client.post("/completions", json={"model": LINE, "prompt": _PROMPT, "max_tokens": 4, "temperature": 0})


def _timed(call: Callable[[], None]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _until(there: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if there():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise TimeoutError(f"it took more than {seconds:.0f} s")


@contextmanager
def _cores_apart(serve: psutil.Process) -> Iterator[None]:
    """Engines on one core, the router and whoever asks on the others: a cluster has engines on nodes of their own."""
    me, cores = psutil.Process(), sorted(os.sched_getaffinity(0))
    engines = [each for each in me.children(recursive=True) if each != serve]
    places = {me: cores[1:], serve: cores[1:], **dict.fromkeys(engines, cores[:1])}
    for process, own in places.items():
        _pin(process, own)
    try:
        yield
    finally:
        for process in places:
            _pin(process, cores)


def _pin(process: psutil.Process, cores: list[int]) -> None:
    # Each thread has an affinity of its own, and threads that were started before keep theirs.
    for thread in process.threads():
        os.sched_setaffinity(thread.id, cores)


@contextmanager
def _process(entry: str, *arguments: str, **variables: str) -> Iterator[psutil.Process]:
    module, _, name = entry.partition(":")
    code = f"from {module} import {name}; {name}()"
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _engine() -> Iterator[HttpServer]:
    """An engine of its own, asked directly."""
    arguments = ("--base", str(_BASE), "--port", str(_ENGINE), "--max-adapters", "8")
    with _process("ft_assets.workers.serving.main:main", *arguments, FT_SERVING_KEY=_KEY):
        client = HttpServer(f"http://127.0.0.1:{_ENGINE}", _KEY)
        try:
            _until(client.healthy, 120)
            yield client
        finally:
            client.close()


def _beside(key: str, what: str, found: Rates) -> Figure:
    ours, theirs = statistics.median(found.ours), statistics.median(found.theirs)
    print(f"{what}: {ours:.1f} through the router, {theirs:.1f} directly")
    return goal_figure(key, what, found.ratio, 0.97)


def _at_most(key: str, what: str, ours: float, goal: float) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=f"<= {goal}", met=ours <= goal)
