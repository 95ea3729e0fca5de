"""The data ledger: the examples that each optimizer step consumed, and the proof that none was missed or repeated.

One JSON line per step: ``{"epoch":0,"examples":[[12,14],7],"step":1}``. Numbers index the pack's example list; an
inner pair ``[a, b]`` stands for a, a + 1, … b. The order is the order of reading. If examples have weights, a line has
them in the same order: in ``"weights":[0.5,[2.0,14]]`` the inner pair stands for 14 examples that weigh 2 each.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.packs.format import TRAIN, CachedFiles, Pack
from ft_assets.workers.packs.sampler import Order, Step
from ft_assets.workers.training.attempt_plan import order_of
from ft_assets.workers.training.early_stopping import STOPPED_EARLY
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.file_cache import FileCache
from ft_resources.json_object import JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line: optimizer step ``step`` (from 1) of ``epoch`` (from 0) consumed ``examples`` (int64), which have
    ``weights`` (float64; None if all count the same)."""

    step: int
    epoch: int
    examples: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None


def ledger_line(pack: Pack, step: Step) -> str:
    """The line of one optimizer step, without a line break."""
    examples = pack.examples_of(step.windows.tolist())
    line = {"step": step.number, "epoch": step.epoch, "examples": _runs(examples)}
    weights = pack.weights_of(examples)
    return canonical_json(line if weights is None else {**line, "weights": _repeats(weights)}).decode()


def parse_line(line: str) -> Entry:
    """The entry in ``line``. Raises ValueError for anything that ``ledger_line`` does not write."""
    try:
        raw = json.loads(line)
        examples = [
            np.arange(item[0], item[1] + 1) if isinstance(item, list) else np.array([item]) for item in raw["examples"]
        ]
        return Entry(
            step=int(raw["step"]),
            epoch=int(raw["epoch"]),
            examples=np.concatenate([np.empty(0, np.int64), *examples]).astype(np.int64),
            weights=_repeated(raw["weights"]) if "weights" in raw else None,
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a line of a ledger ({error})") from error


def check_ledger(lines: Sequence[str], pack: Pack, order: Order) -> list[str]:
    """What is wrong with the ledger, as sentences; empty if each epoch read every example exactly once.

    An epoch that ``order.max_steps`` cuts short reads no example twice. Only the order's counts are used, never its
    permutations, so the proof does not rest on the sampler. Raises ValueError for a line that cannot be read.
    """
    entries = [parse_line(line) for line in lines]
    findings = []
    if [entry.step for entry in entries] != list(range(1, order.steps + 1)):
        findings.append(f"the lines are not the steps 1 to {order.steps}, each once and in order")
    if [entry.epoch for entry in entries] != [step // order.steps_per_epoch for step in range(order.steps)]:
        findings.append("the epochs do not follow each other as the steps do")
    expected = pack.documents_by_example()
    known = len(expected)
    for epoch in range(-(-order.steps // order.steps_per_epoch)):
        complete = (epoch + 1) * order.steps_per_epoch <= order.steps
        parts = [entry.examples for entry in entries if entry.epoch == epoch]
        seen = np.concatenate([np.empty(0, np.int64), *parts])
        if len(seen) and (seen.min() < 0 or seen.max() >= known):
            findings.append(f"epoch {epoch} names examples that the pack does not have")
            continue
        counts = np.bincount(seen, minlength=known)
        missed, repeated = int((counts < expected).sum()), int((counts > expected).sum())
        if repeated or (missed and complete):
            findings.append(f"epoch {epoch} missed {missed} example(s) and repeated {repeated}")
    if not findings:
        wrong = [str(entry.step) for entry in entries if not _has_weights(entry, pack)]
        findings += [f"step {', '.join(wrong)} names other weights than the examples have"] if wrong else []
    return findings


def _runs(values: NDArray[np.int64]) -> list[int | list[int]]:
    """``[3, 4, 5, 9]`` as ``[[3, 5], 9]``; runs of two stay as they are, which is shorter."""
    if not len(values):
        return []
    pieces = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1)
    runs: list[int | list[int]] = []
    for piece in pieces:
        if len(piece) > 2:
            runs.append([int(piece[0]), int(piece[-1])])
        else:
            runs.extend(int(value) for value in piece)
    return runs


def _repeats(values: NDArray[np.float64]) -> list[float | list[float]]:
    """``[2.0, 2.0, 0.5]`` as ``[[2.0, 2], 0.5]``."""
    counted = [(value, len(list(same))) for value, same in groupby(values.tolist())]
    return [value if count == 1 else [value, count] for value, count in counted]


def _repeated(items: list[float | list[float]]) -> NDArray[np.float64]:
    pairs = [item if isinstance(item, list) else [item, 1] for item in items]
    return np.repeat(np.array([value for value, _ in pairs], np.float64), [int(count) for _, count in pairs])


def _has_weights(entry: Entry, pack: Pack) -> bool:
    weights = pack.weights_of(entry.examples)
    if weights is None or entry.weights is None:
        return weights is entry.weights
    return np.array_equal(weights, entry.weights)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The result of checking a checkpoint's ledger; ``findings`` are sentences, empty if the proof holds."""

    findings: list[str]
    steps: int
    epochs: int
    examples: int
    documents: int
    cut_short: bool
    stopped_early: bool

    @property
    def summary(self) -> str:
        """One sentence on what was checked."""
        read = f"{self.examples:,} examples, {self.documents:,} documents"
        what = f"{self.steps:,} steps, {self.epochs:,} epoch(s), {read}"
        by = "early stopping" if self.stopped_early else "max_steps"
        return f"{what}; {by} cut the last epoch short" if self.cut_short else what


def prove(artifacts: Artifacts, checkpoint: Artifact, scratch: Path) -> Proof:
    """Check the ledger of ``checkpoint`` against its token pack.

    Raises CorruptArtifact if either is damaged, UserError if the pack is gone.
    """
    pack_artifact = artifacts.get(Address.parse(checkpoint.manifest.inputs["pack"].address))
    pack = Pack.open(CachedFiles(pack_artifact, FileCache.of_machine(scratch)), TRAIN)
    recipe = checkpoint.read_json("recipe.json")
    order = order_of(JsonObject(recipe["training"], recipe.error), pack)
    stopped: int | None = checkpoint.facts.get(STOPPED_EARLY)
    if stopped:
        order = replace(order, max_steps=stopped)
    lines = checkpoint.read("ledger.jsonl").decode().splitlines()
    try:
        findings = check_ledger(lines, pack, order)
    except ValueError as error:
        raise CorruptArtifact(
            f"the ledger cannot be read ({error})",
            where=checkpoint.location("ledger.jsonl"),
            remedy="Restore the object from the bucket's versions or a backup.",
        ) from error
    return Proof(
        findings=findings,
        steps=order.steps,
        epochs=-(-order.steps // order.steps_per_epoch),
        examples=pack.index.examples,
        documents=pack.index.documents,
        cut_short=order.steps % order.steps_per_epoch != 0,
        stopped_early=stopped is not None,
    )
