"""Dagster's instance, opened by several processes of which none found its databases."""

import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from ft_assets.graph.instance import open_instance

# Nearly every process trips over another one in one of so many homes where nothing keeps them apart.
_PROCESSES, _HOMES = 2, 3


@pytest.mark.subprocess
def test_processes_that_open_an_empty_home_at_once_all_open_it_and_so_does_who_comes_later(tmp_path: Path) -> None:
    homes = [tmp_path / str(number) for number in range(_HOMES)]
    # A fork would have the threads of this process's Dagster, or their locks.
    spawned = multiprocessing.get_context("spawn")
    together = spawned.Barrier(_PROCESSES)
    told = spawned.Queue()
    processes = [spawned.Process(target=_open_all, args=(homes, together, told)) for _ in range(_PROCESSES)]
    for each in processes:
        each.start()
    failures = [told.get(timeout=600) for _ in processes]
    for each in processes:
        each.join(600)
    assert failures == [[]] * _PROCESSES


def _open_all(homes: list[Path], together: Barrier, told: "multiprocessing.Queue[list[str]]") -> None:
    failures = []
    for home in homes:
        os.environ["DAGSTER_HOME"] = os.environ["FT_STATE"] = str(home)
        together.wait(600)
        try:
            for _ in range(2):
                with open_instance() as instance:
                    instance.get_runs(limit=1)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    told.put(failures)
