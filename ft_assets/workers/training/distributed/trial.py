"""A trial of DeepSpeed's engine for ``ft kernels``, in a separate process: the engine changes its process, and can be
started only once in each."""

# ruff: noqa: TID253 -- called by workers only, once torch is needed anyway.

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from ft_assets.workers.training.distributed.zero import engine_config, load_deepspeed
from ft_assets.workers.training.kernel_trials import draw, require_near

_LIMIT_S = 300.0
"""It takes seconds, unless it compiles something."""


def try_engine(device: torch.device) -> None:
    """Raise RuntimeError with the cause if a step of the engine on ``device`` is not that of plain AdamW."""
    command = [sys.executable, "-m", "ft_assets.workers.training.distributed.trial", str(device)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"it did not take a step within {_LIMIT_S:.0f} s") from None
    if done.returncode:
        said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["it ended without a word"]
        raise RuntimeError(said[-1])


@torch.enable_grad()
def take_a_step(device: torch.device) -> None:
    """One update in ZeRO's stage 2, in this process alone. Raises ValueError if it is not that of plain AdamW."""
    plain, divided = (torch.nn.Linear(64, 8, device=device) for _ in range(2))
    divided.load_state_dict(plain.state_dict())
    rows = draw(device, (16, 64))[0].detach().float()
    update = torch.optim.AdamW(plain.parameters(), lr=0.1)
    plain(rows).square().mean().backward()
    update.step()
    with _alone(device):
        engine, *_ = load_deepspeed(device.type).initialize(
            model=divided,
            optimizer=torch.optim.AdamW(divided.parameters(), lr=0.1),
            config=engine_config(2, device.type),
        )
        engine.backward(engine(rows).square().mean())
        engine.step()
        require_near(*([each.detach() for each in model.parameters()] for model in (divided, plain)))


@contextmanager
def _alone(device: torch.device) -> Iterator[None]:
    """A process group of this process alone, and the variable that tells DeepSpeed its GPU."""
    os.environ["LOCAL_RANK"] = str(device.index or 0)
    with tempfile.TemporaryDirectory(prefix="ft-kernels-") as folder:
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=f"file://{folder}/group", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


if __name__ == "__main__":
    try:
        take_a_step(torch.device(sys.argv[1]))
    except Exception as error:  # The parent reads the last line.
        print(f"{type(error).__name__}: {error}".splitlines()[0])
        sys.exit(1)
