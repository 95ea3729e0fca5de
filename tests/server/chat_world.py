"""A line with adapters that the API may be asked for, and servers of their base."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.lines.lines import append, read_line
from ft_assets.workers.adapters.export import _write_tokenizer
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.made import leave
from tests.server.scripted_server import Scripted
from tests.workers.serving.world import BASE, KEY, Served, alone, make_adapter, make_engine, plain

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
ASKS: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "where is the fox?"},
]
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


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
    starts: bool = False
    loaded: list[tuple[str, str]] = field(default_factory=list)

    def add(self, url: str, name: str = "one") -> None:
        self.servers.append(Endpoint(name=name, base=self.base, model=BASE, url=url, key=KEY))

    def endpoints(self, base: str) -> Sequence[Endpoint]:
        return [each for each in self.servers if each.base == base]

    def want(self, model: ServedModel) -> str:
        return "" if self.starts else "the places are taken"

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


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A real one."""
    made = Served(make_engine(make_fake_base(tmp_path_factory.mktemp("engine") / "base")))
    yield made
    made.close()


@pytest.fixture
def line(project: Project) -> Line:
    return Line(project)


@pytest.fixture
def fleet(line: Line, engine: Served | Scripted) -> OwnFleet:
    """The engine alone."""
    made = OwnFleet(line.artifacts, line.base.digest)
    made.add(engine.url)
    return made


def expected(project: Project, adapter: Artifact, messages: list[dict[str, Any]], tokens: int = 24) -> str:
    """The greedy answer of Transformers and PEFT to the evaluation's prompt."""
    base = project.folder / "base"
    tokenizer = ChatTokenizer.load(base)
    ids = ChatPrompts(base, tokenizer, TEMPLATE).prompt(messages, "here")
    found, _ = alone(plain(base, adapter.folder(Path("unused"))), ids, tokens)
    return str(tokenizer.tokenizer.decode([each for each in found if each != 2], skip_special_tokens=True))
