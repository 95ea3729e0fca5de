"""The order of all tests, and what each may take: ``tests/needs.py`` says what a marker stands for."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.cluster.fixtures import cluster as cluster
from tests.durations import Durations
from tests.needs import LONG, NEEDS, OPTIONAL, SHARED, limited, needs, skip_absent, skipped
from tests.sharing import WaitingBeside, collects
from tests.warm_workers.fixture import warm_server as warm_server

# The machine's cache holds what earlier runs fetched, and tests see what is fetched.
os.environ.pop("FT_CACHE", None)

_OFFLINE = "HF_HUB_OFFLINE" in os.environ
_TESTS = Path(__file__).parent

# Whoever uses the fixture has its need, without saying so.
JOURNEYS = dict.fromkeys(("accepted", "rejected", "safe_base"), "e2e")
BY_FIXTURE = {"cluster": "cluster", "s3_endpoint": "s3", "vllm": "vllm", **JOURNEYS}
# So have all tests of these folders.
BY_FOLDER = {_TESTS / "e2e": "e2e", _TESTS / "server": "server", _TESTS / "remote": "server"}


# Examples of `make test` are the same each time, so that none fails by chance; `make test-long` looks for new ones.
_PROPERTY = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("test", max_examples=25, derandomize=True, database=None, **_PROPERTY)
settings.register_profile("long", max_examples=500, **_PROPERTY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that say no need")
    parser.addoption("--long", action="store_true", help="also tests marked long, and 500 examples of each property")
    parser.addoption("--durations-to", type=Path, metavar="FILE", help="write how long each test took")


def pytest_configure(config: pytest.Config) -> None:
    # Whoever starts the run in the background leaves SIGINT ignored. Processes inherit that, and Dagster does with
    # SIGTERM as with SIGINT: none of what tests start would end when it is asked to.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # A test and the server that it asks are threads of one process: by default, each answer waits for up to 5 ms.
    sys.setswitchinterval(0.0005)
    for name, words in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: needs {words}")
    for name, (_, how) in OPTIONAL.items():
        config.addinivalue_line("markers", f"{name}: skipped where it is not there: {how}")
    config.addinivalue_line("markers", f"long: {LONG}")
    settings.load_profile("long" if config.getoption("--long") else "test")
    config.pluginmanager.register(SHARED)
    if target := config.getoption("--durations-to"):
        config.pluginmanager.register(Durations(target))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Processes beyond the number of processors take only what waits."""
    return WaitingBeside(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Libraries and tests stay until the end: the garbage collector looks at none of them, neither now nor later.

    One look takes a second, and trainings, compilations and pytest itself ask for many.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast, whole runs and servers are not even imported; nor is what a process never takes."""
    if config.getoption("--fast") and collection_path in BY_FOLDER:
        return True
    all_asked = config.args in (["tests"], [str(_TESTS)])
    return True if all_asked and not collects(os.environ.get("PYTEST_XDIST_WORKER", ""), collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole runs, then the other files whose tests need something, then all others; files stay together."""
    for item in items:
        for fixture, name in BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(name)
        for folder, name in BY_FOLDER.items():
            if folder in item.path.parents:
                item.add_marker(name)
    skip_absent(items)

    def left_out(item: pytest.Item) -> bool:
        long = item.get_closest_marker("long") and not config.getoption("--long")
        return bool(long or (config.getoption("--fast") and needs(item)))

    if away := [item for item in items if left_out(item)]:
        config.hook.pytest_deselected(items=away)
        items[:] = [item for item in items if not left_out(item)]
    slow = {item.path for item in items if needs(item) - {"realdata"}}
    items.sort(key=lambda item: (item.path.parent.name != "e2e", item.path not in slow))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each reason why tests were skipped here."""
    for line in skipped(terminalreporter.stats.get("skipped", [])):
        terminalreporter.line(line)


@pytest.fixture(autouse=True)
def _online() -> Iterator[None]:
    """A worker keeps its process offline: one that a test runs within its own must not do so to later tests."""
    yield
    if not _OFFLINE:
        os.environ.pop("HF_HUB_OFFLINE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """With --fast, a test has LIMIT_S: whatever is slower says by a marker what it needs."""
    return limited(item, nextitem) if item.config.getoption("--fast") else None
