"""A small store with everything an evaluation reads, made here: a base, a suite, a dataset, candidates."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from safetensors.numpy import save

from ft_assets.settings.recipe.acceptance import EvaluationSettings, GateSettings, HoldoutSettings
from ft_assets.workers.evals.baseline import score_baseline
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.model import LoadedModel
from ft_assets.workers.templates.outputs import Output
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import canonical_json, digest, sha256_bytes
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkContext, WorkResult
from tests.choice_suite import as_lines, choice_task
from tests.fake_base import HIDDEN, LAYERS, make_fake_base
from tests.made import REVISION, SOURCE, leave, spec_of
from tests.workers.evals.results import SUITE, Results, make_results

PAIR = "acme.things.v1|tiny.v1"
COLOURS = ("red", "green", "blue", "grey")
_BASELINES: dict[str, tuple[dict[str, bytes], Mapping[str, Any]]] = {}


@dataclass
class World:
    """Artifacts made by hand; each ``publish`` stores what a worker would have published."""

    store: Store
    folder: Path
    contexts: int = 0
    artifacts: Artifacts = field(init=False)

    def __post_init__(self) -> None:
        self.artifacts = Artifacts(self.store)

    def publish(
        self,
        asset: str,
        files: Mapping[str, bytes] | Path,
        *,
        tenant: str = "acme",
        inputs: Mapping[str, Artifact] | None = None,
        params: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """An artifact with these files (contents, or a folder of them)."""
        request = self.request(asset, tenant=tenant, inputs=inputs, params=params)
        return leave(self.artifacts, request, files, facts)

    def request(
        self,
        asset: str,
        *,
        tenant: str = "acme",
        inputs: Mapping[str, Artifact] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> WorkRequest:
        return WorkRequest(
            asset=asset,
            tenant=tenant,
            code_version="1",
            inputs={name: artifact.ref for name, artifact in (inputs or {}).items()},
            params=dict(params or {}),
            label=PAIR,
        )

    def context(self, request: WorkRequest, attempt: int = 1) -> WorkContext:
        """A fresh worker's context for ``request``."""
        self.contexts += 1
        scratch = self.folder / f"scratch-{self.contexts}"
        scratch.mkdir()
        return WorkContext(spec_of(self.store, request, attempt), self.store, scratch)

    def publish_result(self, request: WorkRequest, result: WorkResult) -> Artifact:
        """Publish a finished piece of work, as the worker does."""
        return leave(self.artifacts, request, result.folder, result.facts)

    def baseline(self, request: WorkRequest) -> Artifact:
        """The baseline report that a worker makes; all tests of this process measure one only once."""
        # An address is of all that decides the bytes.
        if (key := str(request.address)) not in _BASELINES:
            result = score_baseline(self.context(request))
            paths = [path for path in result.folder.rglob("*") if path.is_file()]
            files = {str(path.relative_to(result.folder)): path.read_bytes() for path in paths}
            _BASELINES[key] = (files, result.facts)
        return leave(self.artifacts, request, *_BASELINES[key])

    def base(self, *, seed: int = 0) -> Artifact:
        return self.publish(
            "base_model",
            make_fake_base(self.folder / f"base-{seed}", seed=seed),
            tenant="shared",
            params={"seed": seed},
            facts={
                "source": SOURCE,
                "revision": REVISION,
                "architecture": "LlamaForCausalLM",
                "tokenizer_digest": "t",
                "template_digest": "c",
            },
        )

    def suite(self, items: int = 24) -> Artifact:
        return self.publish("suite", suite_files(items), tenant="shared", params={"items": items})

    def dataset(self, train: int = 40, holdout: int = 16) -> Artifact:
        files = {
            "train.parquet": parquet(rows(train)),
            "validation.parquet": parquet(rows(4, start=train)),
            "holdout.parquet": parquet(rows(holdout, start=train + 4)),
        }
        return self.publish("dataset", files, params={"train": train, "holdout": holdout})

    def pairs(self, train: int = 8, holdout: int = 16) -> Artifact:
        """A preference dataset: what the rows say, against another colour."""
        made = []
        for row in rows(train + holdout):
            *before, chosen = row["messages"]
            rejected = {**chosen, "content": f"it is {COLOURS[row['row'] % 4]}, is it not?"}
            made.append({**row, "messages": before, "chosen": [chosen], "rejected": [rejected]})
        files = {"train.parquet": parquet(made[:train]), "holdout.parquet": parquet(made[train:])}
        return self.publish("dataset", files, params={"pairs": holdout}, facts={"form": "preference"})

    def checkpoint(self, base: Artifact, *, strength: float = 0.0, seed: int = 1) -> Artifact:
        """A LoRA candidate whose adapter is random with this strength, in PEFT's own file format."""
        files = {f"final/{name}": data for name, data in lora_files(strength, seed).items()}
        recipe = {"method": "sft", "variant": "lora", "lora": {"rank": 2}, "training": {"epochs": 1}}
        files["recipe.json"] = canonical_json(recipe)
        return self.publish("checkpoint", files, inputs={"base": base}, params={"strength": strength, "seed": seed})

    def eval_report(
        self,
        base: Artifact,
        checkpoint: Artifact,
        results: Results | None = None,
        evidence: Evidence | bytes | None = None,
    ) -> Artifact:
        """Report of these results; ``evidence`` replaces what they give: bytes as they are, else for this report."""
        results = results or make_results()
        inputs = {"base": base, "checkpoint": checkpoint}
        params = {"evidence": repr(evidence), "results": sha256_bytes(repr(results.columns()).encode())}
        address = self.request("eval_report", inputs=inputs, params=params).address
        if not isinstance(evidence, bytes):
            right = (evidence or results.evidence()).model_copy(update={"fingerprint": address.fingerprint})
            evidence = canonical_json(right.model_dump(mode="json"))
        return self.publish("eval_report", {"report.json": evidence, **results.files()}, inputs=inputs, params=params)

    def adapter_request(self, base: Artifact, checkpoint: Artifact, report: Artifact, **gates: Any) -> WorkRequest:
        return self.request(
            "adapter",
            inputs={"base": base, "checkpoint": checkpoint, "eval_report": report},
            params={
                "gates": GateSettings.model_validate(gates).model_dump(mode="json"),
                "suites": [SUITE],
                "line": "acme.things.tiny",
                "dataset": "acme.things.v1",
                "recipe": "tiny.v1",
                "chat_template": None,
            },
        )


def evaluation(**changes: Any) -> dict[str, Any]:
    """Evaluation settings as JSON, of a size for tests."""
    settings = EvaluationSettings(suites=(SUITE,), holdout=HoldoutSettings(max_samples=12, max_new_tokens=6))
    return {**settings.model_dump(mode="json"), **changes}


def suite_files(items: int = 24, *, context_words: int = 4) -> dict[str, bytes]:
    """A four-way suite with contexts and choices of several lengths."""
    lines = [
        {
            "id": f"item-{number}",
            "question": " ".join(["the thing"] * (1 + number % context_words)) + f" {number} is",
            "choices": [f"{colour} {'and bright ' * ((number + place) % 3)}" for place, colour in enumerate(COLOURS)],
            "answer": number % 4,
        }
        for number in range(items)
    ]
    return {
        "task.yaml": yaml.safe_dump(choice_task("colours")).encode(),
        "items.jsonl": as_lines(lines).encode(),
    }


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Dataset rows about the colours of numbered things."""
    made = []
    for number in range(start, start + count):
        messages = [
            {"role": "user", "content": f"what colour is thing {number}?" + " please" * (number % 5)},
            {
                "role": "assistant",
                "content": f"it is {COLOURS[number % 4]}" + (f" {number}" if number % 7 == 0 else ""),
            },
        ]
        made.append(
            {"id": digest(messages), "messages": messages, "group": "", "kind": "ab"[number % 2], "row": number + 1}
        )
    return made


def parquet(records: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records), sink)
    return sink.getvalue().to_pybytes()


def lora_files(strength: float, seed: int = 1) -> dict[str, bytes]:
    """A PEFT folder for the fake base: rank 2 on the query and value projections."""
    random = np.random.default_rng(seed)
    weights = {}
    for layer in range(LAYERS):
        for name in ("q_proj", "v_proj"):
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{prefix}.lora_A.weight"] = random.standard_normal((2, HIDDEN)).astype(np.float32)
            noise = random.standard_normal((HIDDEN, 2)).astype(np.float32)
            weights[f"{prefix}.lora_B.weight"] = np.float32(strength) * noise
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": SOURCE,
        "revision": REVISION,
        "r": 2,
        "lora_alpha": 4,
        "target_modules": ["q_proj", "v_proj"],
    }
    return {
        "adapter_config.json": json.dumps(config).encode(),
        "adapter_model.safetensors": save(weights, metadata={"format": "pt"}),
    }


def written(answer: Callable[[LoadedModel, list[int]], str]) -> Callable[..., Iterator[tuple[int, Output, bool]]]:
    """A stand-in for ``generation.write_answers``: every model answers a prompt's ids as ``answer`` says."""

    def write_answers(
        loaded: LoadedModel, chat: object, prompts: Sequence[list[int]], max_new_tokens: int
    ) -> Iterator[tuple[int, Output, bool]]:
        for place, ids in enumerate(prompts):
            yield place, Output("", answer(loaded, ids)), False

    return write_answers
