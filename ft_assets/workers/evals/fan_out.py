"""A model's scores on all suites of a worker: what was saved is not scored again, and several GPUs share the rest.

With n GPUs the worker starts n - 1 processes (``suite_process.py``), each with a GPU and the model of its own. All take
one suite after the other, the largest first, and save its score in the attempt. A score does not depend on who made
it, nor on what was scored before. Without a GPU there is one process.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ft_assets.checkpoints.distributed.endings import RanksFailed, raise_ending
from ft_assets.checkpoints.distributed.launch import killed_for_memory
from ft_assets.evals import runner
from ft_assets.evals.kinds.asking import Chat
from ft_assets.evals.model import LoadedModel, load_model
from ft_assets.evals.score import SuiteScore
from ft_assets.evals.suite_saves import SUITES, SuiteSaves
from ft_assets.recipes.acceptance import Engine
from ft_resources.work import WorkSpec
from ft_resources.worker_context import Preempted, WorkContext

JOB = "job.json"
_LOOK_S = 0.1


class SuiteJob(BaseModel):
    """What a process of a fan-out has to know, as JSON.

    Args:
        base: folder of the base, with the tokenizer.
        weights: folder of an adapter on the base (``variant`` lora), or of a whole model (full); None for the base.
        suites: suite key to its folder.
        template: the recipe's chat template; None for the base's.
        engine: what writes answers.
        saves: where in the attempt scores are saved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: WorkSpec
    base: Path
    weights: Path | None
    full: bool
    suites: dict[str, Path]
    seed: int
    limit: int | None
    template: str | None
    engine: Engine = "transformers"
    saves: str = SUITES

    def load(self) -> LoadedModel:
        """The model that is scored."""
        if self.full and self.weights is not None:
            return load_model(self.weights, tokenizer_folder=self.base, engine=self.engine)
        return load_model(self.base, self.weights, engine=self.engine).merged()

    def score(self, loaded: LoadedModel, saves: SuiteSaves, progress: runner.Progress) -> dict[str, SuiteScore]:
        """The scores of the suites that this process took, and of those saved already."""
        return runner.score_loaded(
            loaded,
            self.suites,
            seed=self.seed,
            limit=self.limit,
            progress=progress,
            chat=Chat(folder=self.base, template=self.template),
            saves=saves,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Process:
    rank: int
    process: "subprocess.Popen[bytes]"


def score_suites(context: WorkContext, loaded: LoadedModel, job: SuiteJob) -> dict[str, SuiteScore]:
    """The score on each suite of ``job``, by its key in alphabetic order; ``loaded`` is the job's model.

    Raises as ``runner.score_loaded``, and what a process of the fan-out raised; MemoryError where the kernel ended one
    for lack of memory, Preempted where it was ended otherwise. What was scored until then stays saved.
    """
    folder = context.scratch / "suites"
    claims = folder / "claims"
    claims.mkdir(parents=True, exist_ok=True)
    saves = SuiteSaves.of(context.store, context.spec, claims, job.saves)
    devices = devices_for(len(saves.missing(job.suites)), context.runtime)
    killed_before = killed_for_memory()
    with _others(job, folder, devices[1:]) as others:
        scores = job.score(loaded, saves, context.progress)
        while any(each.process.poll() is None for each in others):
            context.progress("waiting for suites on other GPUs", len(job.suites) - len(others), len(job.suites))
            time.sleep(_LOOK_S)
    if others:
        try:
            raise_ending(folder)
        except Preempted:
            if not context.stop_requested and killed_for_memory() > killed_before:
                raise MemoryError("the kernel ended a process, as the container's memory was used up") from None
            raise
    for key in job.suites:
        score = scores.get(key) or saves.find(key)
        if score is None:
            raise RanksFailed(f"suite {key} was taken by a process that did not score it; the log says why")
        scores[key] = score
    return dict(sorted(scores.items()))


def devices_for(suites: int, runtime: Mapping[str, Any]) -> list[str]:
    """The GPUs, as CUDA_VISIBLE_DEVICES names them, that share so many suites; the worker's own comes first."""
    import torch

    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = visible or [str(number) for number in range(torch.cuda.device_count())]
    return names[: max(1, min(int(runtime.get("processes", 1)), torch.cuda.device_count(), suites))]


@contextmanager
def _others(job: SuiteJob, folder: Path, devices: list[str]) -> Iterator[list[_Process]]:
    """Processes on further GPUs, which end with this one at the latest."""
    (folder / JOB).write_text(job.model_dump_json())
    threads = str(max(1, (os.cpu_count() or 1) // (len(devices) + 1)))
    started: list[_Process] = []
    try:
        for rank, device in enumerate(devices, start=1):
            process = subprocess.Popen(
                [sys.executable, "-m", "ft_assets.evals.suite_process", str(folder), str(rank)],
                # It ends when this pipe is closed: with this process, however that ends.
                stdin=subprocess.PIPE,
                env={"OMP_NUM_THREADS": threads, **os.environ, "CUDA_VISIBLE_DEVICES": device},
            )
            started.append(_Process(rank=rank, process=process))
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()
