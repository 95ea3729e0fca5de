"""What the workers of a job leave in the store, step by step, without doing the work."""

import json
import math
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.control import identity
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_assets.workers.adapters.lineage import lineage
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import Attempt, chunk_path
from ft_resources.canonical import canonical_json
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import passing
from tests.made import leave
from tests.workers.evals.results import SUITE, Results, flips, losses, samples_file

STEPS = 40
_REPORT = b"<!doctype html><html lang=en><title>Report</title><h1>What curation found</h1><p>Rows of acme.</p>"
_PNG = b"\x89PNG\r\n\x1a\n"
_HOLDOUT = 400


class FakeTraining:
    """The work of one submission."""

    def __init__(self, store: Store, submission: Submission) -> None:
        self.store, self.submission = store, submission
        self.artifacts = Artifacts(store)
        self._keys = submission.dataset, submission.recipe
        self._chunks = 0

    def curate(self, *, held: tuple[str, ...] = ()) -> Artifact:
        """The dataset, with a holdout of 400 rows."""
        rows = [_row(number) for number in range(_HOLDOUT)]
        schema = pa.schema([*EXAMPLES, pa.field("id", pa.string())])
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
        files = {
            # Of each submission others, or those of one recipe would share one training and its evaluation.
            "train.parquet": f"rows of {self.submission.id}".encode(),
            "holdout.parquet": sink.getvalue().to_pybytes(),
            "report/report.html": _REPORT,
        }
        counts = {"train": 128, "validation": 16, "holdout": _HOLDOUT}
        facts = {"form": "chat", "held": list(held), "dropped": {"duplicate": 3}, "rows": counts}
        return leave(self.artifacts, identity.dataset_request(self.artifacts, self._keys[0]), files, facts)

    def prepare(self) -> None:
        """Everything up to the training."""
        self.curate()
        recipe = self._keys[1]
        base = {"tokenizer_digest": "00", "template_digest": "11", "source": "hub:org/tiny", "revision": "c" * 40}
        self._leave(identity.base_model_request(self.artifacts, recipe), base)
        self._leave(identity.baseline_report_request(self.artifacts, recipe))
        pack = identity.token_pack_request(self.artifacts, *self._keys)
        self._leave(pack, {"tokens": 8116, "windows": 64}, {"report/samples.html": _REPORT})

    def train(self, until: int) -> None:
        """Steps of the training up to ``until`` of 40."""
        attempt = Attempt(self.store, identity.checkpoint_request(self.artifacts, *self._keys).address, 1)
        attempt.claim("ann")
        begun = len(attempt.steps())
        rows = [_step(step) for step in range(begun + 1, until + 1)]
        number = len(attempt.chunks("steps", 0)) + 1
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        self.store.put(chunk_path(attempt.path, "steps", number), data)
        progress = {
            "phase": "training",
            "done": until,
            "total": STEPS,
            "at": time.time(),
            "eta_s": 2.0 * (STEPS - until),
        }
        self.store.put_json(f"{attempt.path}/progress.json", progress)

    def evaluate(self, *, good: bool = True) -> None:
        """The rest of the training, and a report on a candidate that is better than its base, or that is not."""
        self.train(STEPS)
        facts = {"tokens": 8116, "seconds": 60.0, "steps": STEPS, "train_loss": 1.2, "validation_loss": [[STEPS, 1.4]]}
        training = identity.checkpoint_request(self.artifacts, *self._keys)
        self._leave(training, facts, {"report/loss.png": _PNG})
        request = identity.eval_report_request(self.artifacts, *self._keys)
        results = Results(
            suites={SUITE: flips(0.5, 0.5 if good else 0.41, 1000)},
            correct=flips(0.2, 0.4, _HOLDOUT),
            losses=losses(_HOLDOUT, 0.5 if good else -0.2),
        )
        evidence = results.evidence().model_copy(update={"fingerprint": request.address.fingerprint})
        files = {"report.json": canonical_json(evidence.model_dump(mode="json")), **results.files()}
        files["samples/holdout.parquet"] = samples_file({**results.columns()["holdout"], **_answers(results)})
        files["report/report.html"] = _REPORT
        leave(self.artifacts, request, files, {"summary": {}})

    def accept(self) -> Artifact:
        """The adapter, and the submission's end."""
        dataset, recipe = self._keys
        line = f"{dataset.rpartition('.')[0]}.{recipe.split('.')[-2]}"
        metrics = {"exact_match": {"base": 0.2, "candidate": 0.4}}
        request = identity.adapter_request(self.artifacts, dataset, recipe, self.submission.gates)
        above = {name: lineage(self.artifacts, ref.address).as_json() for name, ref in request.inputs.items()}
        files = {
            "adapter_model.safetensors": b"weights",
            "README.md": b"# an adapter",
            "lineage.json": canonical_json({"inputs": above}),
            "verdicts.json": canonical_json(passing()),
        }
        adapter = leave(self.artifacts, request, files, {"line": line, "metrics": metrics})
        finish(self.store, self.submission, SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
        return adapter

    def reject(self) -> None:
        reason = "task_gain: fail, perplexity 18.9 → 23.4 on 400 holdout rows"
        advice = ("Lower the learning rate to 1e-4", "Mix in general chats, about a tenth of the rows")
        finish(self.store, self.submission, SubmissionStatus.REJECTED, reason=reason, suggestions=advice)

    def _leave(
        self,
        request: WorkRequest,
        facts: dict[str, Any] | None = None,
        pages: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Artifact:
        # Of each submission another, or all of them would share one training.
        content = {"asset": request.asset, "of": self.submission.id}
        return leave(self.artifacts, request, {"result.json": canonical_json(content), **pages}, facts)


def _step(step: int) -> dict[str, Any]:
    loss = 1.1 + 2 * math.exp(-step / 9) + 0.12 * math.sin(step * 1.7)
    row = {"step": step, "loss": loss, "grad_norm": 1.75, "at": time.time()}
    return {**row, "validation_loss": 1.3 + 1.8 * math.exp(-step / 10)} if step % 10 == 0 else row


def _row(number: int) -> dict[str, Any]:
    def turn(role: str, content: str) -> dict[str, str]:
        return {"role": role, "content": content, "tool_calls": "", "tool_call_id": "", "name": ""}

    messages = [
        turn("user", "May I ask you something?"),
        turn("assistant", "Of which thing?"),
        turn("user", f"what colour is thing {number}?"),
        turn("assistant", f"thing {number} is {_colour(number)}"),
    ]
    empty = {"chosen": [], "rejected": [], "text": "", "tools": "", "group": "", "kind": "", "page": 0}
    return {"id": str(number), "row": number + 1, "messages": messages, **empty}


def _answers(results: Results) -> dict[str, list[Any]]:
    target = [f"thing {number} is {_colour(number)}" for number in range(_HOLDOUT)]

    def said(right: list[float]) -> list[str]:
        return [text if fits else "I cannot see it" for text, fits in zip(target, right, strict=True)]

    return {"target": target, "base_answer": said(results.correct[0]), "candidate_answer": said(results.correct[1])}


def _colour(number: int) -> str:
    return ("red", "green", "blue", "grey", "white")[number % 5]
