"""What the store said a moment ago is not asked for again, and while it hangs nobody waits for it."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from ft_assets.server.remembered import Remembered
from ft_resources.errors import NotFound, StoreUnavailable
from tests.clock import Clock
from tests.server.conftest import until


class Source:
    """Counts looks. ``says`` is what the next one gives, or raises; they hang until ``goes_on`` is set."""

    def __init__(self) -> None:
        self.says: int | Exception = 1
        self.looks = 0
        self.goes_on = threading.Event()
        self.goes_on.set()

    def look(self, key: str) -> int:
        self.looks += 1
        self.goes_on.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.goes_on.set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_many_who_ask_at_once_are_told_by_one_look(source: Source, clock: Clock) -> None:
    known = Remembered(source.look, clock=clock)

    async def ask() -> list[int]:
        return await asyncio.gather(*(known.find("a") for _ in range(50)))

    assert asyncio.run(ask()) == [1] * 50
    assert asyncio.run(ask()) == [1] * 50
    assert source.looks == 1


def test_what_is_asked_for_all_the_time_is_looked_up_again_and_nobody_waits(source: Source, clock: Clock) -> None:
    known = Remembered(source.look, patience_s=600, clock=clock)
    assert asyncio.run(known.find("a")) == 1
    source.says = 2
    clock.advance(1.5)
    assert asyncio.run(known.find("a")) == 1
    until(lambda: asyncio.run(known.find("a")) == 2)
    source.says = 3
    clock.advance(2.5)
    assert asyncio.run(known.find("a")) == 3


def test_a_store_that_is_away_or_hangs_is_not_waited_for(source: Source, clock: Clock) -> None:
    known = Remembered(source.look, patience_s=0, clock=clock)
    assert asyncio.run(known.find("a")) == 1
    source.says = StoreUnavailable("it is away")
    clock.advance(600)
    assert asyncio.run(known.find("a")) == 1
    with pytest.raises(StoreUnavailable):
        asyncio.run(known.find("b"))
    until(lambda: not known._looks)
    source.goes_on.clear()
    # It hangs until the end of the test.
    assert [asyncio.run(known.find("a")) for _ in range(20)] == [1] * 20
    until(lambda: source.looks == 4)
    clock.advance(3)
    assert [asyncio.run(known.find("a")) for _ in range(20)] == [1] * 20
    assert source.looks == 4
    source.goes_on.set()
    until(lambda: not known._looks)
    clock.advance(400)
    with pytest.raises(StoreUnavailable):
        asyncio.run(known.find("a"))


def test_what_is_gone_is_not_remembered(source: Source, clock: Clock) -> None:
    known = Remembered(source.look, clock=clock)
    assert asyncio.run(known.find("a")) == 1
    source.says = NotFound("it was deleted")
    clock.advance(1.5)
    # Looked up beside the answer, and forgotten.
    assert asyncio.run(known.find("a")) == 1
    until(lambda: source.looks == 2 and not known._looks)
    with pytest.raises(NotFound):
        asyncio.run(known.find("a"))
    source.says = 4
    assert asyncio.run(known.find("a")) == 4


def test_the_keys_looked_up_longest_ago_go(source: Source) -> None:
    known = Remembered(source.look, most=2, clock=Clock())
    for key in ("a", "b", "c", "b", "c", "a"):
        asyncio.run(known.find(key))
    assert source.looks == 4


def test_who_goes_away_ends_no_look(source: Source) -> None:
    known = Remembered(source.look)
    source.goes_on.clear()

    async def ask() -> int:
        first = asyncio.create_task(known.find("a"))
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(known.find("a"))
        await asyncio.sleep(0)
        source.goes_on.set()
        return await second

    assert asyncio.run(ask()) == 1
    assert source.looks == 1
