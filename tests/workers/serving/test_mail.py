"""Events reach the event loop in order, and wake it as rarely as possible."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from ft_assets.workers.serving.mail import Mail
from ft_assets.workers.serving.requests import Event, Failed, Read, Written
from ft_resources.serving.server import Token


def written(number: int, *, last: bool = False) -> Written:
    return Written(Token(id=number), "length" if last else None)


def brought(send: Callable[[Callable[[Event], None]], None], *, as_a_whole: bool, wanted: int) -> Sequence[Event]:
    """The events that arrive when ``send`` runs on its own thread."""

    async def arrived() -> list[Event]:
        events: asyncio.Queue[Event] = asyncio.Queue()
        thread = threading.Thread(target=send, args=(Mail().to(events, as_a_whole=as_a_whole),))
        thread.start()
        try:
            return [await asyncio.wait_for(events.get(), 10) for _ in range(wanted)]
        finally:
            thread.join()

    return asyncio.run(arrived())


def test_thousands_of_events_arrive_in_their_order_however_the_threads_take_turns() -> None:
    sent = [written(number) for number in range(20_000)]

    def send(tell: Callable[[Event], None]) -> None:
        for event in sent:
            tell(event)

    assert brought(send, as_a_whole=False, wanted=len(sent)) == sent


def test_events_of_one_step_wake_the_loop_once() -> None:
    async def woken() -> int:
        loop, mail, times = asyncio.get_running_loop(), Mail(), 0
        wake = loop.call_soon_threadsafe

        def counted(*given: object) -> object:
            nonlocal times
            times += 1
            return wake(*given)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
        queues: list[asyncio.Queue[Event]] = [asyncio.Queue() for _ in range(32)]
        tells = [mail.to(events, as_a_whole=False) for events in queues]
        for step in range(2):
            for tell in tells:
                tell(written(step))
            await asyncio.gather(*(events.get() for events in queues))
        return times

    assert asyncio.run(woken()) == 2


def test_an_answer_that_is_told_as_a_whole_comes_with_its_last_event() -> None:
    async def seen(*sent: Event) -> list[int]:
        events: asyncio.Queue[Event] = asyncio.Queue()
        tell, found = Mail().to(events, as_a_whole=True), []
        for event in sent:
            tell(event)
            await asyncio.sleep(0.01)
            found.append(events.qsize())
        return found

    assert asyncio.run(seen(Read(()), written(1), written(2, last=True))) == [0, 0, 3]
    assert asyncio.run(seen(Read(()), written(1), Failed(ValueError("damaged")))) == [0, 0, 3]
