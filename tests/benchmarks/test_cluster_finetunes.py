"""Fine-tunes beside each other on a test cluster, fewer than the benchmark's: the same program, and what it refuses."""

from pathlib import Path

import pytest

from benchmarks.cluster_finetunes import fine_tunes
from benchmarks.cluster_finetunes_asked import TENANT, ask
from benchmarks.cluster_finetunes_verdict import problems_of, problems_of_all
from ft_assets.control import identity
from ft_resources.artifacts import Artifacts

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("warm")]


def test_fine_tunes_that_are_admitted_together_end_with_an_adapter_each(tmp_path: Path) -> None:
    project, asked = ask(tmp_path, 2)
    found = fine_tunes(project, asked)
    assert found.problems == []
    assert (found.done, found.at_once) == (2, 2)

    # Whoever says so looks: an adapter with other bytes, work that was begun again and what nobody asked for are seen.
    store, (first, second) = project.store, asked.recipes
    adapter = identity.adapter(Artifacts(store), asked.dataset, first)
    store.put(adapter.location("adapter_config.json"), b"{}")
    (altered,) = problems_of(store, asked.dataset, first)
    assert f"adapter_config.json of {adapter.address} does not match its sha256" in altered
    checkpoint = identity.checkpoint(Artifacts(store), asked.dataset, second)
    store.put_json(f"{checkpoint.address}/attempts/0002/claim.json", {"actor": "x", "at": 0.0})
    (again,) = problems_of(store, asked.dataset, second)
    assert f"attempts at {checkpoint.address}" in again
    assert problems_of_all(store, asked) == []
    store.put_json(f"{TENANT}/checkpoint/{'0' * 64}/attempts/0001/claim.json", {"actor": "x", "at": 0.0})
    assert problems_of_all(store, asked) == ["3 of checkpoint, not 2"]
