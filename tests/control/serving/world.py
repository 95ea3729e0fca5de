"""A store with adapters of lines and their promotions, and a fleet that keeps what it serves in memory."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ft_assets.control.lines.lines import PromotionRecord, append, read_line
from ft_assets.control.serving.status import LineServed, ServerShown, ServingStatus
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.run_processes import process_tag
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.servers import Base, ServerState
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import LINE, made_record
from tests.made import leave

SOURCE, COMMIT = "hub:acme/tiny", "0123456789abcdef" * 2 + "01234567"


@dataclass
class Lines:
    """Adapters of lines in a store."""

    store: Store

    @property
    def artifacts(self) -> Artifacts:
        return Artifacts(self.store)

    def base(self, files: Mapping[str, bytes] | Path | None = None, *, source: str = SOURCE) -> Artifact:
        lock = {"kind": "hub", "source": source, "revision": COMMIT}
        return self._leave("base_model", files or {"config.json": source.encode()}, tenant="shared", lock=lock)

    def adapter(self, base: Artifact, files: Mapping[str, bytes] | Path | int = 1) -> Artifact:
        """An adapter; a number stands for its weights."""
        if isinstance(files, int):
            files = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"%d" % files, "log/x.txt": b"-"}
        return self._leave("adapter", files, inputs={"base": base}, number=str(files), dataset="acme.things.v1")

    def promote(
        self, adapter: Artifact, base: Artifact, stage: str = "production", *, line: str = LINE, kind: str = "promotion"
    ) -> PromotionRecord:
        state = read_line(self.store, line)
        record = made_record(
            line,
            len(state.records) + 1,
            id=f"{len(state.records)}-{adapter.digest}",
            stage=stage,
            kind=kind,
            base=base.ref,
            previous=state.head,
        )
        return append(self.store, record.model_copy(update={"adapter": adapter.ref}))

    def _leave(
        self,
        asset: str,
        files: Mapping[str, bytes] | Path,
        *,
        tenant: str = "acme",
        inputs: Mapping[str, Artifact] | None = None,
        **params: object,
    ) -> Artifact:
        refs = {name: each.ref for name, each in (inputs or {}).items()}
        request = WorkRequest(asset=asset, tenant=tenant, code_version="1", inputs=refs, params=params, label="x")
        return leave(self.artifacts, request, files)


def endpoint(base: str, name: str = "one") -> Endpoint:
    return Endpoint(name=name, base=base, model="base", url=f"http://{name}", key="secret")


@dataclass
class FakeFleet:
    """Servers in memory: one for each base that is wanted, or what ``names`` says."""

    names: Sequence[str] = ("one",)
    served: dict[Endpoint, set[str]] = field(default_factory=dict)
    refuses: dict[str, Exception] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    slow: bool = False
    copies_stay: bool = False
    begun: list[tuple[str, str]] = field(default_factory=list)
    pending: list[tuple[ServedModel, Endpoint, "Future[None]"]] = field(default_factory=list)
    kept: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    provided: list[list[str]] = field(default_factory=list)

    def wanted(self) -> Mapping[str, str]:
        return self.bases

    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]:
        self.provided.append([base.source for base in bases])
        wanted = [endpoint(base.digest, f"{name}-{base.digest[:4]}") for base in bases for name in self.names]
        self.served = {each: self.served.get(each, set()) for each in wanted}
        return [ServerState(name=each.name, base=each.base, endpoint=each) for each in wanted]

    def look(self) -> Mapping[Endpoint, Collection[str]]:
        return {each: frozenset(names) for each, names in self.served.items()}

    def begin(self, model: ServedModel, endpoint: Endpoint) -> "Future[None]":
        self.begun.append((model.name, endpoint.name))
        loading: Future[None] = Future()
        self.pending.append((model, endpoint, loading))
        if not self.slow:
            self.finish()
        return loading

    def finish(self) -> None:
        """End what is being loaded."""
        while self.pending:
            model, endpoint, loading = self.pending.pop(0)
            if model.name in self.refuses:
                loading.set_exception(self.refuses[model.name])
            else:
                self.served.setdefault(endpoint, set()).add(model.name)
                loading.set_result(None)

    def unload(self, name: str, endpoint: Endpoint) -> None:
        self.served[endpoint].discard(name)

    def asked_at(self, name: str) -> float | None:
        return self.asked.get(name)

    def keep(self, digests: Collection[str], *, but_not: Collection[str] = ()) -> bool:
        self.kept.append((frozenset(digests), frozenset(but_not)))
        return not self.copies_stay

    def all_served(self) -> set[str]:
        return {name for names in self.served.values() for name in names}


def made_status() -> ServingStatus:
    """What was seen now of two tenants on one server."""

    def line(name: str, adapter: str, **values: Any) -> LineServed:
        return LineServed(
            line=name,
            stage="production",
            adapter=f"{name.split('.')[0]}/adapter/0123",
            name=adapter,
            base="b" * 64,
            **values,
        )

    return ServingStatus(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        process=process_tag(),
        lines=(
            line("acme.a.tiny", "acme.a.tiny@11", servers=("one",)),
            line("globex.b.tiny", "globex.b.tiny@22", trouble="one: weights are damaged"),
        ),
        servers=(
            ServerShown(name="one", base="b" * 64, state="answers", models=("acme.a.tiny@11", "globex.b.tiny@22")),
        ),
        drift=("globex.b.tiny@22 is not on one, and should be",),
    )
