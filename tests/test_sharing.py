"""The rule of ``tests/sharing.py``, over processes that only note what they are given."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.remote import Producer

from tests import sharing
from tests.sharing import WaitingBeside, collects

ROOT = Path(__file__).parents[1]
WAITS = [f"tests/server/test_{name}.py::test_{number}" for name in "ab" for number in range(3)]
COMPUTES = [f"tests/workers/test_{name}.py::test_{number}" for name in "cdefg" for number in range(3)]


class Process:
    """Of pytest-xdist, in which all tests pass at once."""

    def __init__(self, name: str, collection: list[str], scheduler: WaitingBeside) -> None:
        self.gateway, self.collection, self.scheduler = SimpleNamespace(id=name), collection, scheduler
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def ran(self) -> list[str]:
        return [self.collection[index] for index in self.given]


def run_all(collections: dict[str, list[str]]) -> dict[str, Process]:
    """Let the processes run one test each in turn until all is done."""
    config = SimpleNamespace(
        getvalue=lambda _: [f"{len(collections)}*popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler = WaitingBeside(config, Producer("test", enabled=False))
    processes = {name: Process(name, tests, scheduler) for name, tests in collections.items()}
    for process in processes.values():
        scheduler.add_node(process)
    for process in processes.values():
        scheduler.add_node_collection(process, process.collection)
    scheduler.schedule()
    done: dict[str, int] = defaultdict(int)
    while any(done[name] < len(each.given) for name, each in processes.items()):
        for name, each in processes.items():
            if done[name] < len(each.given):
                scheduler.mark_test_complete(each, each.given[done[name]])
                done[name] += 1
    assert not scheduler.has_pending
    return processes


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_COMPUTING", 2)


def test_each_test_runs_once_and_processes_beside_take_only_what_waits() -> None:
    # Those beside report first, as they collect less.
    found = run_all({"gw3": WAITS, "gw2": WAITS, "gw0": WAITS + COMPUTES, "gw1": WAITS + COMPUTES})
    ran = [test for process in found.values() for test in process.ran()]
    assert sorted(ran) == sorted(WAITS + COMPUTES)
    assert {*found["gw2"].ran(), *found["gw3"].ran()} == set(WAITS)
    assert all(process.shutting_down for process in found.values())


def test_two_processes_share_everything_by_whole_files() -> None:
    found = run_all({"gw0": WAITS + COMPUTES, "gw1": WAITS + COMPUTES})
    one, other = ({test.split("::")[0] for test in process.ran()} for process in found.values())
    assert one
    assert other
    assert not one & other
    assert sum(len(process.ran()) for process in found.values()) == len(WAITS + COMPUTES)


@pytest.mark.parametrize(
    ("worker", "path", "looks"),
    [
        ("", "tests/workers/test_c.py", True),
        ("gw1", "tests/workers/test_c.py", True),
        ("gw2", "tests/workers/test_c.py", False),
        ("gw2", "tests/workers", False),
        ("gw2", "tests", True),
        ("gw2", "tests/resources", True),
        ("gw2", "tests/resources/test_store.py", False),
        ("gw2", "tests/resources/launchers", True),
        ("gw2", "tests/resources/launchers/test_contract.py", True),
        ("gw3", "tests/server/console/test_pages.py", True),
    ],
)
def test_a_process_beside_looks_for_tests_only_where_some_wait(worker: str, path: str, looks: bool) -> None:
    assert collects(worker, ROOT / path) is looks
