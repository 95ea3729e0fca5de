"""A server of models that writes what a test says."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.workers.serving.world import BASE


class Scripted:
    """A server that writes what a test says, piece by piece, and then ends as the test says.

    Args:
        texts: of the pieces.
        ends: whether the answer is complete; else the connection is cut after the last piece.
        silent_at: the number of the piece that never comes, while the connection stays.

    While ``is_new`` it knows no adapter, as one that was just started. It has no answer for the models of
    ``failing``, no room for those of ``busy``, half an answer for those of ``cut``, none ever for those of
    ``hanging``, and other texts and reasons to end for those of ``texts_of`` and ``reasons_of``.
    """

    def __init__(
        self, texts: Sequence[str] = (), *, ends: bool = True, status: int = 200, silent_at: int | None = None
    ) -> None:
        self.texts, self.ends, self.status, self.silent_at = list(texts), ends, status, silent_at
        self.is_new, self.reason = False, "length"
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
        config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="critical")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)

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
            await asyncio.sleep(600)
        texts, ends = self.texts_of.get(model, self.texts), self.ends and model not in self.cut
        if self.asked[-1].get("stream"):
            return StreamingResponse(self._pieces(texts, ends, model), media_type="text/event-stream")
        return StreamingResponse(self._whole(texts, ends, model), media_type="application/json")

    async def _whole(self, texts: Sequence[str], ends: bool, model: str) -> Any:
        if self.silent_at is not None:
            await asyncio.sleep(600)
        # A part of an answer that is cut is no answer.
        yield '{"choices": '
        if not ends:
            raise ConnectionError("the test cuts the connection")
        choice = {
            "text": "".join(texts),
            "token_ids": [7] * len(texts),
            "logprobs": None,
            "finish_reason": self.reasons_of.get(model, self.reason),
        }
        yield json.dumps([choice]) + "}"

    async def _pieces(self, texts: Sequence[str], ends: bool, model: str) -> Any:
        for number, text in enumerate(texts):
            if number == self.silent_at:
                await asyncio.sleep(600)
            reason = self.reasons_of.get(model, self.reason) if ends and number == len(texts) - 1 else None
            choice = {"index": 0, "text": text, "token_ids": [7], "logprobs": None, "finish_reason": reason}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        if not ends:
            raise ConnectionError("the test cuts the connection")
        yield "data: [DONE]\n\n"


def events_of(lines: Iterator[str]) -> list[Any]:
    """What a stream of server-sent events says; "[DONE]" as it is."""
    said = [line.removeprefix("data: ") for line in lines if line]
    return [each if each == "[DONE]" else json.loads(each) for each in said]
