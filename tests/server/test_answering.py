"""A server that hangs, or was started anew, keeps no request from an answer that another try would give."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ft_assets.server.answering import Answering, Question
from ft_resources.errors import NotFound
from ft_resources.serving.async_servers import AsyncServers
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.server import Sampling
from tests.server.conftest import until
from tests.server.scripted_server import Patience, Scripted

MODEL = ServedModel(line="acme.colours.tiny", address="acme/adapter/a", digest="a" * 64, base="b")


class Fleet:
    """Servers that a test gives. What was ``served`` once is taken for served until it is forgotten."""

    def __init__(self, *servers: Scripted) -> None:
        self.ends = [
            Endpoint(name=str(number), base="b", model="base", url=each.url, key="k")
            for number, each in enumerate(servers)
        ]
        self.servers = servers
        self.served: set[str] = set()
        self.loads: list[str] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_there = True
        self.on_load: Callable[[], object] = lambda: None

    def endpoints(self, base: str) -> list[Endpoint]:
        return self.ends

    def want(self, model: ServedModel) -> str:
        return "none starts"

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        return endpoint.name in self.served

    def forget(self, model: ServedModel, endpoint: Endpoint) -> None:
        self.served.discard(endpoint.name)

    def load(self, model: ServedModel, endpoint: Endpoint) -> None:
        self.loads.append(endpoint.name)
        self.on_load()
        if not self.is_there:
            raise NotFound("there is no such adapter")
        self.goes_on.wait()
        self.served.add(endpoint.name)


class Prompt(ThreadPoolExecutor):
    """An executor whose work has begun when ``submit`` returns."""

    def submit(self, call: Any, *given: Any) -> Any:
        begun = threading.Event()

        def beginning() -> Any:
            begun.set()
            return call(*given)

        found = super().submit(beginning)
        begun.wait()
        return found


@pytest.fixture
def scripted() -> Iterator[list[Scripted]]:
    made: list[Scripted] = []
    yield made
    for each in made:
        each.close()


def answers(fleet: Fleet, times: int = 1, load_s: float = 600.0, *, most: int = 5, whole: bool = False) -> list[str]:
    """Texts of so many answers, one after the other; of one that broke off what went wrong."""

    async def ask(answering: Answering) -> str:
        question = Question(
            model=MODEL,
            prompt=[7],
            most=most,
            sampling=lambda most: Sampling(max_tokens=most),
            where="prompt",
            whole=whole,
        )
        try:
            return "".join([piece.text async for piece in await answering.ask(question)])
        except ServerUnavailable as error:
            return error.what

    async def all_of_them() -> list[str]:
        patience = Patience()
        for each in fleet.servers:
            each.on_silence = patience.ends
        servers = AsyncServers(first_s=7, next_s=7, timeout=patience)
        answering = Answering(fleet, servers=servers, load_s=load_s)
        answering._loading = Prompt()
        try:
            return [await ask(answering) for _ in range(times)]
        finally:
            await answering.close()

    return asyncio.run(all_of_them())


def test_another_server_answers_where_one_says_nothing_and_the_silent_one_is_tried_last_from_then_on(
    scripted: list[Scripted],
) -> None:
    scripted += [Scripted(["never"], silent_at=0), Scripted(["fine"])]
    assert answers(Fleet(*scripted), times=6) == ["fine"] * 6
    assert (len(scripted[0].asked), len(scripted[1].asked)) == (1, 6)


def test_the_only_server_is_given_up_after_its_time_and_asked_again_by_the_next(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(["never"], silent_at=0))
    assert answers(Fleet(*scripted), times=2) == ["it wrote nothing for 7 s"] * 2
    assert len(scripted[0].asked) == 2


def test_an_answer_that_stops_growing_breaks_off(scripted: list[Scripted]) -> None:
    scripted += [Scripted(["half ", "an ", "answer"], silent_at=2), Scripted(["fine"])]
    assert answers(Fleet(scripted[0])) == ["it wrote nothing for 7 s"]
    assert scripted[1].asked == []


def test_a_server_that_was_started_anew_gets_its_adapter_again_and_answers(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(["fine"]))
    fleet = Fleet(*scripted)
    fleet.served.add("0")
    scripted[0].is_new = True
    fleet.on_load = lambda: setattr(scripted[0], "is_new", False)
    assert answers(fleet) == ["fine"]
    assert (fleet.loads, len(scripted[0].asked)) == (["0"], 2)


def test_a_server_that_never_knows_the_adapter_is_given_up(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(["fine"]))
    scripted[0].is_new = True
    fleet = Fleet(*scripted)
    assert answers(fleet) == ["no such model"]
    assert fleet.loads == ["0", "0"]


def test_an_adapter_that_loads_too_long_is_asked_for_elsewhere_and_goes_on_loading(scripted: list[Scripted]) -> None:
    scripted += [Scripted(["slow"]), Scripted(["fine"])]
    fleet = Fleet(*scripted)
    fleet.served.add("1")
    fleet.goes_on.clear()
    assert answers(fleet, load_s=0.01) == ["fine"]
    fleet.goes_on.set()
    until(lambda: "0" in fleet.served)


def test_an_adapter_that_is_not_in_the_store_is_not_looked_for_elsewhere(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(["fine"]))
    fleet = Fleet(*scripted)
    fleet.is_there = False
    with pytest.raises(NotFound):
        answers(fleet)
    assert fleet.loads == ["0"]


def test_a_short_answer_that_nobody_reads_in_pieces_is_asked_for_as_a_whole(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(["all ", "of it"]))
    fleet = Fleet(*scripted)
    for whole, most, streams in ((True, 128, False), (True, 129, True), (False, 5, True)):
        assert answers(fleet, most=most, whole=whole) == ["all of it"]
        assert scripted[0].asked[-1].get("stream", False) is streams, (whole, most)


def test_a_whole_answer_comes_from_another_server_where_one_says_nothing_or_breaks_off(
    scripted: list[Scripted],
) -> None:
    scripted += [Scripted(["never"], silent_at=0), Scripted(["half"], ends=False), Scripted(["fine"])]
    assert answers(Fleet(*scripted), times=4, whole=True) == ["fine"] * 4
    assert [len(each.asked) for each in scripted] == [1, 1, 4]
    assert answers(Fleet(scripted[0]), whole=True) == ["it gave no answer for 14 s"]
