"""Score a model on all suites of a worker: saved scores are reused, and several GPUs share the rest.

With n GPUs the worker starts n - 1 processes (``suite_process.py``), each with its own GPU and copy of the model. Each
takes one suite after another, the largest first, and saves its score in the attempt. A score does not depend on the
process, nor on what was scored before. Without a GPU there is one process.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ft_assets.settings.recipe.acceptance import Engine
from ft_assets.workers.evals import runner
from ft_assets.workers.evals.asking import Chat
from ft_assets.workers.evals.model import LoadedModel, load_model
from ft_assets.workers.evals.suite_saves import SUITES, SuiteSaves
from ft_assets.workers.suites.score import SuiteScore
from ft_assets.workers.training.distributed.endings import RanksFailed, raise_ending
from ft_assets.workers.training.distributed.launch import kills_explained
from ft_resources.strict_model import StrictModel
from ft_resources.work import WorkSpec
from ft_resources.worker_context import WorkContext

JOB = "job.json"
_LOOK_S = 0.1


class SuiteJob(StrictModel):
    """Parameters of a fan-out process, as JSON.

    Args:
        base: folder of the base, with the tokenizer.
        weights: folder of an adapter on the base (``variant`` lora), or of a whole model (full); None for the base.
        suites: suite key to its folder.
        template: the recipe's chat template; None for the base's.
        engine: generates the answers.
        saves: the attempt's folder for scores.
    """

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
        """The model to score."""
        if self.full and self.weights is not None:
            return load_model(self.weights, base_folder=self.base, engine=self.engine)
        return load_model(self.base, self.weights, engine=self.engine).merged()

    def score(self, loaded: LoadedModel, saves: SuiteSaves, progress: runner.Progress) -> dict[str, SuiteScore]:
        """The scores of the suites that this process took, and of those already saved."""
        return runner.score_loaded(
            loaded,
            self.suites,
            seed=self.seed,
            limit=self.limit,
            progress=progress,
            chat=Chat(folder=self.base, template=self.template),
            saves=saves,
        )


def score_suites(context: WorkContext, loaded: LoadedModel, job: SuiteJob) -> dict[str, SuiteScore]:
    """The score on each suite of ``job``, by its key in alphabetic order; ``loaded`` is the job's model.

    Raises what ``runner.score_loaded`` or a process of the fan-out raised, MemoryError if the kernel killed one for
    lack of memory, Preempted if one was ended otherwise. Scores finished by then stay saved.
    """
    folder = context.scratch / "suites"
    claims = folder / "claims"
    claims.mkdir(parents=True, exist_ok=True)
    saves = SuiteSaves.of(context.store, context.spec, claims, job.saves)
    devices = devices_for(len(saves.missing(job.suites)), context.runtime)
    with kills_explained(context):
        with _others(job, folder, devices[1:]) as others:
            scores = job.score(loaded, saves, context.progress)
            while any(each.poll() is None for each in others):
                context.progress("waiting for suites on other GPUs", len(job.suites) - len(others), len(job.suites))
                time.sleep(_LOOK_S)
        if others:
            raise_ending(folder)
    for key in job.suites:
        score = scores.get(key) or saves.find(key)
        if score is None:
            raise RanksFailed(f"suite {key} was claimed by a process that did not score it; see the log")
        scores[key] = score
    return dict(sorted(scores.items()))


def devices_for(suites: int, runtime: Mapping[str, Any]) -> list[str]:
    """The GPUs, as CUDA_VISIBLE_DEVICES names them, for this many suites; the worker's own comes first."""
    import torch

    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = visible or [str(number) for number in range(torch.cuda.device_count())]
    return names[: max(1, min(int(runtime.get("processes", 1)), torch.cuda.device_count(), suites))]


@contextmanager
def _others(job: SuiteJob, folder: Path, devices: list[str]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes on further GPUs, which end no later than this one."""
    (folder / JOB).write_text(job.model_dump_json())
    threads = str(max(1, (os.cpu_count() or 1) // (len(devices) + 1)))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank, device in enumerate(devices, start=1):
            command = [sys.executable, "-m", "ft_assets.workers.evals.suite_process", str(folder), str(rank)]
            env = {"OMP_NUM_THREADS": threads, **os.environ, "CUDA_VISIBLE_DEVICES": device}
            # It ends when the pipe closes, that is, with this process, however it ends.
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, env=env))
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait()
