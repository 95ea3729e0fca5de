"""A tiny base with adapters, an engine on it, and the results of one sequence at a time without the engine."""

import queue
import socket
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import torch
import uvicorn
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.serving.app import make_app
from ft_assets.workers.serving.engine import Engine
from ft_assets.workers.serving.requests import Event, Failed, Read, Request, Written
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling, Token

BASE = "base"
ENDS = {2}


def make_adapter(folder: Path, base: Path, *, seed: int, std: float = 0.3, **config: Any) -> Path:
    """An adapter that changes what the base answers."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base)
    chosen = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj", "down_proj"], **config}
    tuned = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **chosen))
    with torch.no_grad():
        for name, weights in tuned.named_parameters():
            if "lora_" in name:
                weights.normal_(std=std)
            elif "modules_to_save" in name:
                weights.add_(torch.randn_like(weights) * 0.1)
    tuned.save_pretrained(folder)
    return folder


def plain(base: Path, adapter: Path | None = None) -> Any:
    """The model as Transformers and PEFT load it."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return (PeftModel.from_pretrained(model, str(adapter)) if adapter else model).eval()


@torch.inference_mode()
def alone(model: Any, prompt: list[int], tokens: int, ends: Collection[int] = ENDS) -> tuple[list[int], list[float]]:
    """The greedy answer to one prompt and its log-probabilities, each computed from the whole sequence."""
    ids, logprobs = list(prompt), []
    for _ in range(tokens):
        following = model(torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
        ids.append(int(following.argmax()))
        logprobs.append(float(following[ids[-1]]))
        if ids[-1] in ends:
            break
    return ids[len(prompt) :], logprobs


@torch.inference_mode()
def scored_alone(model: Any, ids: list[int]) -> list[float]:
    """The log-probability of each token after the first."""
    logprobs = model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)
    return [float(logprobs[place, number]) for place, number in enumerate(ids[1:])]


def make_engine(base: Path, *, dtype: torch.dtype = torch.float32, **settings: Any) -> Engine:
    """An engine on the base in a folder."""
    loaded = load_model(base)
    loaded.model.to(dtype)
    return Engine(loaded, name=BASE, **settings)


@dataclass(eq=False)
class Asked:
    """A request in progress in this process."""

    request: Request
    events: "queue.Queue[Event]"

    def first(self) -> Event:
        """The next event."""
        return self.events.get(timeout=60)

    def answer(self) -> tuple[list[Token], tuple[Token, ...], str]:
        """The remaining tokens, the prompt's scores, and why it ended. Raises what the request failed with."""
        tokens: list[Token] = []
        scores: tuple[Token, ...] = ()
        while True:
            match self.events.get(timeout=60):
                case Failed(error):
                    raise error
                case Read(found):
                    scores = found
                case Written(token, reason):
                    tokens.append(token)
                    if reason:
                        return tokens, scores, reason


def ask(engine: Engine, model: str, prompt: list[int], *, scores: int | None = None, **sampling: Any) -> Asked:
    """Submit a request."""
    events: queue.Queue[Event] = queue.Queue()
    settings = Sampling(**{"max_tokens": 16, "logprobs": 0, **sampling})
    asked = Asked(Request(model, prompt, settings, events.put, scores), events)
    engine.submit(asked.request)
    return asked


KEY = "a-key-of-the-tests"


class Served:
    """``client`` asks the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(make_app(engine, KEY), log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()
        self.client = HttpServer(self.url, KEY)

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self.engine.close()

    def post(self, **body: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.post(f"{self.url}/v1/completions", json=body, headers=headers, trust_env=False)
