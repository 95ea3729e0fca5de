"""Faults that a test plants in ranks, which are separate processes."""

import math
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from tests.clock import Clock

if TYPE_CHECKING:
    from ft_assets.workers.training.ranks import Ranks

REFUSED = "refused.safetensors"
GRAPHS = "graphs"


def nan_in_step_4() -> None:
    """The second rank's seventh loss is NaN. The weights after the refusal are written beside the ranks' endings."""
    from ft_assets.workers.training.methods import sft
    from ft_assets.workers.training.trainer import PackedTrainer
    from ft_resources.errors import Diverged

    second, folder = os.environ["RANK"] == "1", Path(sys.argv[1])
    summed_loss, grad_norm, calls = sft.summed_loss, PackedTrainer._get_grad_norm, 0

    def spoilt(model: Any, batch: Any) -> torch.Tensor:
        nonlocal calls
        # Two windows a step are the second rank's, read one by one.
        calls += 1
        return summed_loss(model, batch) * (float("nan") if second and calls == 7 else 1.0)

    def watched(self: PackedTrainer, *args: Any, **kwargs: Any) -> Any:
        try:
            return grad_norm(self, *args, **kwargs)
        except Diverged:
            model: Any = self.model
            weights = {name: self.sharding.whole(value).detach().clone() for name, value in model.named_parameters()}
            if not second:
                save_file(weights, folder / REFUSED)
            raise

    sft.summed_loss = spoilt
    PackedTrainer._get_grad_norm = watched  # type: ignore[method-assign]


def slow_second_rank() -> None:
    """The second rank needs four times as long for each micro-batch, by clocks that nothing else moves; alerts come
    soon."""
    from ft_assets.workers.training import reader
    from ft_assets.workers.training.methods import sft
    from ft_assets.workers.training.telemetry import alerts, live, own_time

    summed_loss, own, steps = sft.summed_loss, Clock(), Clock()
    alerts.STREAK, alerts.STREAK_S = 3, 0.0
    for module in (reader, own_time):
        module.time = SimpleNamespace(perf_counter=own)  # type: ignore[attr-defined]
    live.time = SimpleNamespace(monotonic=steps)  # type: ignore[assignment]

    def slowly(model: Any, batch: Any) -> torch.Tensor:
        own.advance(0.4 if os.environ["RANK"] == "1" else 0.1)
        steps.advance(1.0)
        return summed_loss(model, batch)

    sft.summed_loss = slowly


def second_rank_stops() -> None:
    """Before its fourth step, in which the others wait for it; they do not wait for long."""
    from ft_assets.workers.training.distributed import hangs
    from ft_assets.workers.training.trainer import PackedTrainer

    training_step, calls = PackedTrainer.training_step, 0

    def stopping(self: PackedTrainer, *args: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 4 and os.environ["RANK"] == "1":
            threading.Event().wait()
        return training_step(self, *args)

    def limit_s(self: hangs.HangWatch) -> float:
        entered, over = hangs.counted(hangs.recorder(entries=False))
        return 0.0 if calls == 4 and entered > over else math.inf

    PackedTrainer.training_step = stopping  # type: ignore[method-assign]
    hangs.HangWatch.limit_s = property(limit_s)  # type: ignore[method-assign,assignment]
    hangs._LOOK_S, hangs._ANSWER_S = 0.1, 600.0


def second_rank_dies_inside() -> None:
    """As ``second_rank_stops``, without a thread that could say so."""
    from ft_assets.workers.training.distributed import hangs

    second_rank_stops()
    hangs._ANSWER_S = 0.1
    if os.environ["RANK"] == "1":
        hangs.HangWatch._watch = lambda self: None  # type: ignore[method-assign]


def engine_without_a_step() -> None:
    """Instead of a training, the trial of DeepSpeed, whose engine does not step. Its error is written to ``said``."""
    from ft_assets.workers.training.distributed.trial import take_a_step

    step, calls = torch.optim.AdamW.step, list[Any]()

    def once(self: torch.optim.AdamW, closure: Any = None) -> Any:
        # The plain step comes first, the engine's after it.
        calls.append(self)
        return step(self, closure) if len(calls) == 1 else None

    torch.optim.AdamW.step = once  # type: ignore[method-assign]
    try:
        take_a_step(torch.device("cpu"))
    except ValueError as error:
        (Path(sys.argv[1]) / "said").write_text(str(error))
        os._exit(0)


def second_node_is_sick() -> None:
    """Each rank's node has a name, and the second's GPU an error."""
    from ft_assets.workers.training.distributed import preflight

    os.environ["FT_NODE"] = f"gpu-{os.environ['RANK']}"
    examine = preflight.examine

    def ill(ranks: "Ranks", device: str) -> preflight.Health:
        own = examine(ranks, device)
        return replace(own, faults=("it has no spare memory rows left",)) if ranks.rank == 1 else own

    preflight.examine = ill


def weights_must_agree() -> None:
    """Each step fails unless the ranks hold the same weights before it."""
    from ft_assets.workers.training.trainer import PackedTrainer

    training_step = PackedTrainer.training_step

    def checked(self: PackedTrainer, model: Any, *args: Any) -> torch.Tensor:
        sums = [weight.detach().double().sum().item() for weight in model.parameters()]
        first, *others = self.reader.ranks.gathered(sums)
        assert all(other == first for other in others), "the ranks' weights differ"
        return training_step(self, model, *args)

    PackedTrainer.training_step = checked  # type: ignore[method-assign]


def compiled_without_c() -> None:
    """Attention is one operator, as on a GPU, so that a layer is one graph; graphs are run by Python.
    Their number is written beside the ranks' endings."""
    from torch._dynamo.utils import counters

    from ft_assets.workers.packs.isolation import attention
    from ft_assets.workers.training import training_loop
    from tests.workers.packs.isolation import flash_on_cpu

    flash_on_cpu.install()
    attention.applies = lambda *_: True

    plain, folder = torch.compile, Path(sys.argv[1])

    def compile_quickly(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs, backend="eager")

    def compiled() -> None:
        (folder / f"{GRAPHS}-{os.environ['RANK']}").write_text(str(counters["stats"]["unique_graphs"]))

    torch.compile = compile_quickly  # type: ignore[assignment]
    training_loop.forgive_later_failures = compiled
