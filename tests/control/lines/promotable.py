"""A line with accepted adapters: dataset, recipe and everything between, published by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ft_assets.control.lines.lines import PromotionRecord
from ft_assets.control.lines.promotion import Decision
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifact, InputRef
from ft_resources.canonical import canonical_json, digest
from ft_resources.work import WorkRequest
from tests.made import REVISION, SOURCE, add_recipe, leave, name_version, upload
from tests.workers.evals.results import SUITE, Results, losses
from tests.workers.evals.world import World

LINE = "acme.things.tiny"
RECIPE = "tiny.v1"
SERVED = TenantsFile(served_bases=(f"{SOURCE}@{REVISION}",))


def decided(actor: str = "ann", reason: str = "it is good", **changes: object) -> Decision:
    """A decision that MLflow does not hear of."""
    values = {"tenants": SERVED, "tracking": "", **changes}
    return Decision(actor=actor, reason=reason, **values)  # type: ignore[arg-type]


def made_record(line: str = LINE, seq: int = 1, adapter: str = "a", **changes: object) -> PromotionRecord:
    """A record that nobody checked."""
    ref = InputRef(address=f"acme/adapter/{adapter}", digest=digest(adapter))
    values: dict[str, object] = {
        "id": f"{seq}-{adapter}",
        "line": line,
        "seq": seq,
        "kind": "promotion",
        "stage": "dev",
        "adapter": ref,
        "eval_report": ref,
        "checkpoint": ref,
        "pack": None,
        "base": ref,
        "dataset": "acme.things.v1",
        "recipe": RECIPE,
        "recipe_hash": digest("recipe"),
        "metrics": {},
        "findings": [],
        "waived": [],
        "actor": "ann",
        "reason": "why not",
        "at": "2026-01-01T00:00:00+00:00",
        "replaces": "",
        "previous": "",
    }
    return PromotionRecord(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class Promotable:
    """``adapter()`` makes one more accepted adapter of the line."""

    world: World
    base: Artifact
    raw: Artifact
    suite: Artifact

    @classmethod
    def make(cls, world: World, *, recipe: dict[str, object] | None = None) -> "Promotable":
        files = {"config.json": b"{}", "tokenizer.json": b"{}"}
        facts = {"source": SOURCE, "revision": REVISION, "tokenizer_digest": "t", "template_digest": "c"}
        base = world.publish("base_model", files, tenant="shared", facts=facts)
        suite = world.suite()
        add_recipe(world.store, RECIPE, **(recipe or {}))
        return cls(world=world, base=base, raw=add_dataset(world, "acme.things.v1"), suite=suite)

    def adapter(
        self,
        number: int = 1,
        *,
        dataset: str = "acme.things.v1",
        recipe: str = RECIPE,
        raw: Artifact | None = None,
        right: Sequence[float] | None = None,
        verdicts: list[dict[str, object]] | None = None,
        ungated: str = "",
        gates: dict[str, Any] | None = None,
    ) -> Artifact:
        """An accepted adapter; with ``ungated`` a result without gates, at the address of that asset.

        ``right`` are its scores on the holdout's items, in order (half of them by default)."""
        world = self.world
        curated = world.publish("dataset", {"train.parquet": b"rows"}, inputs={"raw": raw or self.raw})
        pack = world.publish("token_pack", {"tokens.bin": b"12"}, inputs={"dataset": curated, "base": self.base})
        files = {"final/adapter_model.safetensors": b"%d" % number, "recipe.json": b"{}"}
        checkpoint = world.publish(
            "checkpoint", files, inputs={"pack": pack, "base": self.base}, params={"number": number}
        )
        report = self.report(checkpoint, curated, right)
        request = world.adapter_request(self.base, checkpoint, report, **({"safety": {}} if gates is None else gates))
        request.params.update(dataset=dataset, recipe=recipe)
        if ungated:
            request = replace(request, asset=ungated, params={**request.params, "gates": "none"})
        return self._accept(request, report, number, verdicts)

    def report(self, checkpoint: Artifact, curated: Artifact, right: Sequence[float] | None = None) -> Artifact:
        """The evaluation of ``checkpoint``; ``right`` as for ``adapter``."""
        inputs = {"base": self.base, "checkpoint": checkpoint, "dataset": curated, f"suite:{SUITE}": self.suite}
        address = self.world.request("eval_report", inputs=inputs).address
        scores = list(right or [1.0, 0.0] * 500)
        # The base answers nothing of the holdout and as much of the suite.
        results = Results(
            suites={SUITE: (scores, scores)}, correct=([0.0] * len(scores), scores), losses=losses(len(scores))
        )
        evidence = results.evidence().model_copy(update={"fingerprint": address.fingerprint})
        files = {"report.json": canonical_json(evidence.model_dump(mode="json")), **results.files()}
        return self.world.publish("eval_report", files, inputs=inputs)

    def _accept(
        self, request: WorkRequest, report: Artifact, number: int, verdicts: list[dict[str, object]] | None
    ) -> Artifact:
        from ft_assets.workers.adapters.lineage import lineage

        tree = {
            "inputs": {
                name: lineage(self.world.artifacts, ref.address).as_json() for name, ref in request.inputs.items()
            }
        }
        said = passing() if verdicts is None else verdicts
        files = {
            "adapter_model.safetensors": b"%d" % number,
            "README.md": b"# an adapter",
            "lineage.json": canonical_json(tree),
            "verdicts.json": canonical_json(said),
        }
        metrics = {"exact_match": {"base": 0.2, "candidate": 0.4}}
        return leave(self.world.artifacts, request, files, {"line": LINE, "metrics": metrics})


def passing(*gates: str) -> list[dict[str, object]]:
    """Stored verdicts that all pass, safety among them."""
    names = gates or ("regression", "task_gain", "safety")
    return [{"gate": gate, "outcome": "pass", "reason": "good", "numbers": {}} for gate in names]


def add_dataset(world: World, key: str, data: bytes = b"rows", *, tenant: str = "acme") -> Artifact:
    """A dataset version with its upload."""
    raw = upload(world.artifacts, tenant, data)
    name_version(world.store, key, raw)
    return raw


def flip(path: Path, place: int | None = None) -> bytes:
    """Flip a bit of the file's byte at ``place`` (the middle); what was there."""
    data = path.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2 if place is None else place] ^= 1
    path.write_bytes(bytes(changed))
    return data
