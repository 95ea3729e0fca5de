"""The trainer's figures on a CPU: a step beside a plain loop and TRL, memory, families, and runs that are killed."""

import os

from benchmarks import trainer_families, trainer_head, trainer_kills, trainer_step
from benchmarks.table import Figure


def measure() -> list[Figure]:
    """Run everything; a quarter of an hour on two quiet cores, most of it for the kills."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    steps = trainer_step.figures(trainer_step.measure("lora"), trainer_step.measure("full"))
    head = trainer_head.figures(trainer_head.measure())
    families = trainer_families.figures(trainer_families.measure())
    return steps + head + families + trainer_kills.figures(trainer_kills.measure())
