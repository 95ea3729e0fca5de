"""A server of models that writes what a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.listening import listening
from tests.workers.serving.world import BASE


class Scripted:
    """A server that writes what a test says, piece by piece, and then ends as the test says.

    Args:
        texts: of the pieces.
        ends: whether the answer is complete; else the connection is cut after the last piece.
        silent_at: the number of the piece that never comes, while the connection stays. ``on_silence`` is called then.

    While ``is_new`` it knows no adapter, as one that was just started. It has no answer for the models of
    ``failing``, no room for those of ``busy``, half an answer for those of ``cut``, none ever for those of
    ``hanging``, and other texts and reasons to end for those of ``texts_of`` and ``reasons_of``. ``ids`` are the token
    ids of the pieces, where somebody reads them.
    """

    def __init__(
        self, texts: Sequence[str] = (), *, ends: bool = True, status: int = 200, silent_at: int | None = None
    ) -> None:
        self.texts, self.ends, self.status, self.silent_at = list(texts), ends, status, silent_at
        self.is_new, self.reason = False, "length"
        self.ids: dict[int, list[int]] = {}
        self.asked: list[dict[str, Any]] = []
        self.failing: set[str] = set()
        self.busy: set[str] = set()
        self.cut: set[str] = set()
        self.hanging: set[str] = set()
        self.texts_of: dict[str, Sequence[str]] = {}
        self.reasons_of: dict[str, str] = {}
        routes = [
            Route("/v1/models", self._models),
            Route("/v1/load_lora_adapter", self._load, methods=["POST"]),
            Route("/v1/completions", self._completions, methods=["POST"]),
        ]
        self.on_silence: Callable[[], object] = lambda: None
        self._served = listening(Starlette(routes=routes), log_level="critical", beside=True)
        self.url = self._served.__enter__()

    def write(self, base: Path, text: str) -> None:
        """From now on write ``text``, a token of the base in each piece."""
        tokenizer = ChatTokenizer.load(base).tokenizer
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        self.texts = [tokenizer.decode([number]) for number in ids]
        self.ids = {place: [number] for place, number in enumerate(ids)}

    def close(self) -> None:
        self._served.__exit__(None, None, None)

    async def _say_nothing(self) -> None:
        self.on_silence()
        await asyncio.Event().wait()

    async def _models(self, _: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": BASE, "max_model_len": 256}]})

    async def _load(self, _: Request) -> JSONResponse:
        return JSONResponse({})

    async def _completions(self, request: Request) -> Any:
        self.asked.append(await request.json())
        model = self.asked[-1]["model"]
        if self.is_new:
            return JSONResponse({"error": {"message": "no such model"}}, 404)
        if model in self.failing:
            return JSONResponse({"error": {"message": "its weights are damaged"}}, 500)
        status = 503 if model in self.busy else self.status
        if status != 200:
            headers = {"retry-after": "7"} if status == 503 else {}
            return JSONResponse({"error": {"message": "not now"}}, status, headers)
        if model in self.hanging:
            await self._say_nothing()
        texts, ends = self.texts_of.get(model, self.texts), self.ends and model not in self.cut
        if self.asked[-1].get("stream"):
            return StreamingResponse(self._pieces(texts, ends, model), media_type="text/event-stream")
        return StreamingResponse(self._whole(texts, ends, model), media_type="application/json")

    async def _whole(self, texts: Sequence[str], ends: bool, model: str) -> Any:
        if self.silent_at is not None:
            await self._say_nothing()
        # A part of an answer that is cut is no answer.
        yield '{"choices": '
        if not ends:
            raise ConnectionError("the test cuts the connection")
        choice = {
            "text": "".join(texts),
            "token_ids": [number for place in range(len(texts)) for number in self.ids.get(place, [7])],
            "logprobs": None,
            "finish_reason": self.reasons_of.get(model, self.reason),
        }
        yield json.dumps([choice]) + "}"

    async def _pieces(self, texts: Sequence[str], ends: bool, model: str) -> Any:
        for number, text in enumerate(texts):
            if number == self.silent_at:
                await self._say_nothing()
            reason = self.reasons_of.get(model, self.reason) if ends and number == len(texts) - 1 else None
            ids = self.ids.get(number, [7])
            choice = {"index": 0, "text": text, "token_ids": ids, "logprobs": None, "finish_reason": reason}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        if not ends:
            raise ConnectionError("the test cuts the connection")
        yield "data: [DONE]\n\n"


class Patience:
    """Takes the place of ``asyncio.timeout``: time is up once a server has fallen silent, and not before.

    ``ends`` may be called by any thread.
    """

    def __init__(self) -> None:
        self._loop, self._up = asyncio.get_running_loop(), asyncio.Event()

    def ends(self) -> None:
        self._loop.call_soon_threadsafe(self._up.set)

    @asynccontextmanager
    async def __call__(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(None) as limit:
                waiting = asyncio.create_task(self._end(limit))
                try:
                    yield
                finally:
                    waiting.cancel()
        except TimeoutError:
            self._up.clear()
            raise

    async def _end(self, limit: asyncio.Timeout) -> None:
        await self._up.wait()
        limit.reschedule(self._loop.time())


def events_of(lines: Iterator[str]) -> list[Any]:
    """What a stream of server-sent events says; "[DONE]" as it is."""
    said = [line.removeprefix("data: ") for line in lines if line]
    return [each if each == "[DONE]" else json.loads(each) for each in said]
