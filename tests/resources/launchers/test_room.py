"""The room of a worker: of this machine, or by the cluster's settings."""

from pathlib import Path

import pytest
import yaml

from ft_resources.launchers import room
from ft_resources.launchers.room import worker_room
from ft_resources.work import Resources

GIB = 2**30


def test_on_a_cluster_it_is_what_the_recipe_requests_else_what_the_settings_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "kubernetes.yaml"
    image = f"example.com/worker@sha256:{'0' * 64}"
    types = {"H100": {}, "H100-1g.10gb": {"resource": "nvidia.com/mig-1g.10gb", "memory_gib_per_gpu": 12.0}}
    given = {"image": image, "memory_gib_per_gpu": 90.0, "scratch_gib": 50.0, "gpu_types": types}
    settings.write_text(yaml.safe_dump(given))
    monkeypatch.setenv("FT_LAUNCHER", "kubernetes")
    monkeypatch.setenv("FT_KUBERNETES", str(settings))
    assert worker_room(Resources(gpus=2)).memory == 180 * GIB
    assert worker_room(Resources(gpus=2, memory_gib=300.0)).memory == 300 * GIB
    assert worker_room(Resources(gpus=2, gpu_type="H100")).memory == 180 * GIB
    assert worker_room(Resources(gpus=1, gpu_type="H100-1g.10gb")).memory == 12 * GIB
    assert worker_room(Resources()).memory == 16 * GIB
    assert worker_room(Resources()).disk == 50 * GIB


def test_here_it_is_the_machines_memory_or_its_containers_and_the_scratch_folders_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_LAUNCHER", "local")
    monkeypatch.setenv("FT_SCRATCH", str(tmp_path))
    found = worker_room(Resources())
    assert found.memory > 0
    assert found.disk > 0
    assert str(tmp_path) in found.more_disk
    limit = tmp_path / "memory.max"
    limit.write_text("1024\n")
    assert room._memory_here(limit) == 1024
    limit.write_text("max\n")
    assert room._memory_here(limit) > 1024
