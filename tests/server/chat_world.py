"""A line with adapters that the API may be asked for, and servers of their base."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from ft_assets.control.lines.lines import append, read_line
from ft_assets.workers.adapters.export import _write_tokenizer
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.made import leave
from tests.workers.serving.served import KEY
from tests.workers.serving.world import BASE, make_adapter

LINE = "acme.colours.tiny"
TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'forbidden' -%}{{- raise_exception('no such role') -}}{%- endif -%}"
    "{{- '<|' + ('user' if message['role'] == 'tool' else message['role']) + '|>' -}}"
    "{{- 'says: ' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>says: ' -}}{%- endif -%}"
)
"""Another one than the base's own."""


class Line:
    """Adapters of one line of a project, published without a training."""

    def __init__(self, project: Project, line: str = LINE) -> None:
        self.store, self.line, self._project = project.store, line, project
        self.artifacts = Artifacts(project.store)
        self.tenant = line.partition(".")[0]
        self.base = leave(self.artifacts, self._request("base_model", "shared"), project.folder / "base")

    def adapter(self, seed: int, template: str | None = TEMPLATE, folder: Path | None = None) -> Artifact:
        """One more adapter, with the tokenizer and template that an export writes."""
        made = folder or self._project.folder / f"adapter-{self.tenant}-{seed}"
        if not made.exists():
            make_adapter(made, self._project.folder / "base", seed=seed)
        _write_tokenizer(self.base, template, made, self._project.folder / "scratch")
        # Nobody trained or judged it: the base stands for what a record of the line's log names.
        request = self._request("adapter", self.tenant, base=self.base, checkpoint=self.base, eval_report=self.base)
        dataset, _, recipe = self.line.rpartition(".")
        request.params.update(
            seed=seed, line=self.line, dataset=f"{dataset}.v1", recipe=f"{recipe}.v1", template=template
        )
        return leave(self.artifacts, request, made, {"line": self.line, "metrics": {}})

    def promote(self, adapter: Artifact, stage: str = "production", kind: str = "promotion") -> None:
        """Decide that it stands there, without a check."""
        state = read_line(self.store, self.line)
        record = made_record(
            line=self.line,
            seq=len(state.records) + 1,
            previous=state.head,
            id=f"{stage}-{len(state.records)}",
            adapter=adapter.ref.address,
            stage=stage,
            kind=kind,
        )
        append(self.store, record.model_copy(update={"adapter": adapter.ref, "base": self.base.ref}))

    def _request(self, asset: str, tenant: str, **inputs: Artifact) -> WorkRequest:
        refs = {name: artifact.ref for name, artifact in inputs.items()}
        return WorkRequest(asset=asset, tenant=tenant, code_version="1", inputs=refs, params={}, label="by hand")


@dataclass
class OwnFleet:
    """Servers that a test gives, and no others. ``loaded`` are the names that they were told to serve."""

    artifacts: Artifacts
    base: str
    servers: list[Endpoint] = field(default_factory=list)
    loaded: list[tuple[str, str]] = field(default_factory=list)

    def add(self, url: str, name: str = "one") -> None:
        self.servers.append(Endpoint(name=name, base=self.base, model=BASE, url=url, key=KEY))

    def endpoints(self, base: str) -> Sequence[Endpoint]:
        return [each for each in self.servers if each.base == base]

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        return (model.name, endpoint.name) in self.loaded

    def forget(self, model: ServedModel, endpoint: Endpoint) -> None:
        self.loaded.remove((model.name, endpoint.name))

    def load(self, model: ServedModel, endpoint: Endpoint) -> None:
        artifact = self.artifacts.get(Address.parse(model.address))
        assert artifact.digest == model.digest
        client = HttpServer(endpoint.url, endpoint.key)
        try:
            client.load(model.name, artifact.folder(Path("unused")))
        finally:
            client.close()
        # Whoever asks meanwhile has to wait for it too.
        self.loaded.append((model.name, endpoint.name))


class Scripted:
    """A server that writes what a test says, piece by piece, and then ends as the test says.

    Args:
        texts: of the pieces.
        ends: whether the answer is complete; else the connection is cut after the last piece.
        silent_at: the number of the piece that never comes, while the connection stays.

    While ``is_new`` it knows no adapter, as one that was just started.
    """

    def __init__(
        self, texts: Sequence[str] = (), *, ends: bool = True, status: int = 200, silent_at: int | None = None
    ) -> None:
        self.texts, self.ends, self.status, self.silent_at = list(texts), ends, status, silent_at
        self.is_new = False
        self.asked: list[dict[str, Any]] = []
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
        if self.is_new:
            return JSONResponse({"error": {"message": "no such model"}}, 404)
        if self.status != 200:
            headers = {"retry-after": "7"} if self.status == 503 else {}
            return JSONResponse({"error": {"message": "not now"}}, self.status, headers)
        return StreamingResponse(self._pieces(), media_type="text/event-stream")

    async def _pieces(self) -> Any:
        for number, text in enumerate(self.texts):
            if number == self.silent_at:
                await asyncio.sleep(600)
            reason = "length" if self.ends and number == len(self.texts) - 1 else None
            choice = {"index": 0, "text": text, "token_ids": [7], "logprobs": None, "finish_reason": reason}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        if not self.ends:
            raise ConnectionError("the test cuts the connection")
        yield "data: [DONE]\n\n"


def events_of(lines: Iterator[str]) -> list[Any]:
    """What a stream of server-sent events says; "[DONE]" as it is."""
    said = [line.removeprefix("data: ") for line in lines if line]
    return [each if each == "[DONE]" else json.loads(each) for each in said]
