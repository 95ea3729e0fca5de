"""Embedded servers start where a base is wanted, start again when they died, and end with whoever started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ft_resources.serving import engine_process
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.engine_process import EngineProcess
from ft_resources.serving.servers import Base, ServerState
from tests.clock import Clock
from tests.cluster.fixtures import until
from tests.control.serving.world import Lines
from tests.fake_base import make_fake_base

pytestmark = pytest.mark.subprocess
FAKE = "tests.resources.serving.fake_engine"


@pytest.fixture
def servers(lines: Lines, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServers]:
    """Their processes are small ones, as what they load is of no matter here."""
    monkeypatch.setattr(engine_process, "_MODULE", FAKE)
    made = EmbeddedServers(lines.store, tmp_path / "logs", most=1, clock=clock)
    yield made
    made.close()


def engines() -> list[psutil.Process]:
    """Children of this process that are servers of models."""

    def serves(child: psutil.Process) -> bool:
        # What other tests of this process left behind may end meanwhile.
        with suppress(psutil.NoSuchProcess):
            return FAKE in child.cmdline()
        return False

    return [each for each in psutil.Process().children() if serves(each)]


def base_of(lines: Lines, folder: Path, seed: int = 0) -> Base:
    artifact = lines.base(make_fake_base(folder, seed=seed), source=f"hub:acme/tiny{seed}")
    return Base(address=str(artifact.address), digest=artifact.digest, source="hub:acme/tiny@1")


def test_a_killed_server_starts_again_with_another_key_and_both_end(
    lines: Lines, servers: EmbeddedServers, tmp_path: Path, clock: Clock
) -> None:
    base = base_of(lines, tmp_path / "base")
    states: list[ServerState] = []

    def answers() -> bool:
        states.extend(servers.provide([base]))
        return states[-1].endpoint is not None

    until(answers)
    (engine,) = engines()
    first = states[-1].endpoint
    assert (first.base, first.model) == (base.digest, base.source)
    engine.send_signal(signal.SIGKILL)
    until(lambda: not answers())
    assert "it ended by signal 9" in states[-1].trouble
    clock.advance(1.0)
    until(answers)
    assert states[-1].trouble == ""
    assert states[-1].endpoint.key != first.key
    servers.close()
    assert engines() == []


def test_the_second_base_waits_for_room_and_takes_it_when_the_first_is_not_wanted(
    lines: Lines, servers: EmbeddedServers, tmp_path: Path
) -> None:
    first, second = (base_of(lines, tmp_path / f"base{seed}", seed) for seed in (1, 2))
    until(lambda: servers.provide([first, second])[0].endpoint is not None)
    waiting = servers.provide([first, second])[1]
    assert (waiting.endpoint, "--embedded" in waiting.trouble) == (None, True)
    # Nothing else needs its place.
    assert servers.provide([])[0].endpoint is not None
    until(lambda: servers.provide([second])[0].endpoint is not None)
    assert [each.base for each in servers.provide([second])] == [second.digest]
    assert len(engines()) == 1


def test_a_base_that_cannot_be_loaded_is_told_with_its_last_words_and_tried_again_ever_later(
    lines: Lines, servers: EmbeddedServers, tmp_path: Path, clock: Clock
) -> None:
    artifact = lines.base({"config.json": b"{}"})
    log = tmp_path / "logs" / f"embedded-{artifact.digest[:12]}.log"
    log.parent.mkdir()
    log.write_text("what was said by one that ran for days\n")
    base = Base(address=str(artifact.address), digest=artifact.digest)

    def trouble(text: str) -> str | None:
        said = servers.provide([base])[0].trouble
        return said if text in said else None

    assert "BadBase" in until(lambda: trouble("again in 1 s"))
    clock.advance(0.9)
    assert trouble("again in 1 s")
    clock.advance(0.1)
    assert "BadBase" in until(lambda: trouble("again in 2 s"))
    # The second one's words come after those of the first.
    assert log.read_text().startswith("what was said by one that ran for days\n")
    assert log.read_text().count("BadBase") == 2


def test_a_log_that_grew_long_begins_anew_and_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_process, "_MODULE", FAKE)
    log = tmp_path / "engine.log"
    log.write_bytes(b"long ago\n" * (1 << 20))
    for _ in range(2):
        process = EngineProcess("one", tmp_path / "no base", base="b", model="m", log=log)
        until(lambda process=process: process.ended)
        assert "long ago" not in process.ended
        process.end()
    assert log.stat().st_size < 1 << 20
    assert log.with_name("engine.log.1").read_bytes().startswith(b"long ago\n")


@pytest.mark.e2e
def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    base = make_fake_base(tmp_path / "base")
    program = (
        "import sys, time; from pathlib import Path; from ft_resources.serving.engine_process import EngineProcess;"
        "made = EngineProcess('one', Path(sys.argv[1]), base='b', model='m', log=Path(sys.argv[2]));"
        "print(made.pid, flush=True); time.sleep(600)"
    )
    found = subprocess.Popen([sys.executable, "-c", program, base, tmp_path / "log"], stdout=subprocess.PIPE)
    engine = psutil.Process(int(found.stdout.readline()))
    os.kill(found.pid, signal.SIGKILL)
    found.wait()
    engine.wait()
    assert not engine.is_running()
