"""Fine-tunes beside each other on a test cluster, fewer than the benchmark's: the same program, and what it refuses."""

from pathlib import Path

import pytest

from benchmarks import cluster_finetunes_verdict
from benchmarks.cluster_finetunes import fine_tunes
from benchmarks.cluster_finetunes_asked import Asked, ask
from benchmarks.cluster_finetunes_verdict import problems_of, problems_of_all
from ft_assets.control import identity
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from tests.journeys import Journey, copied


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.usefixtures("warm")
def test_fine_tunes_that_are_admitted_together_end_with_an_adapter_each(tmp_path: Path) -> None:
    project, asked = ask(tmp_path, 2)
    found = fine_tunes(project, asked)
    assert found.problems == []
    assert (found.done, found.at_once) == (2, 2)


@pytest.mark.e2e
def test_an_adapter_with_other_bytes_work_begun_again_and_what_nobody_asked_for_are_seen(
    accepted: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = copied(accepted, tmp_path / "project")
    tenant, store, pair = "acme", mine.store, (mine.dataset, mine.recipe)
    monkeypatch.setattr(cluster_finetunes_verdict, "TENANT", tenant)
    artifacts, asked = Artifacts(store), Asked(dataset=mine.dataset, recipes=[mine.recipe])
    made = [getattr(identity, asset)(artifacts, *pair) for asset in ("checkpoint", "eval_report", "adapter")]
    # As if it had been made in pods.
    for attempt in (attempt for artifact in made for attempt in attempts_at(store, artifact.address)):
        attempt.write_launch({"launcher": "kubernetes"})
    assert problems_of(store, *pair) == []
    checkpoint, _, adapter = made

    store.put(adapter.location("adapter_config.json"), b"{}")
    (altered,) = problems_of(store, *pair)
    assert f"adapter_config.json of {adapter.address} does not match its sha256" in altered
    store.put_json(f"{checkpoint.address}/attempts/0002/claim.json", {"actor": "x", "at": 0.0})
    assert f"attempts at {checkpoint.address}" in problems_of(store, *pair)[-1]
    before = problems_of_all(store, asked)
    assert not [each for each in before if "checkpoint" in each]
    store.put_json(f"{tenant}/checkpoint/{'0' * 64}/attempts/0001/claim.json", {"actor": "x", "at": 0.0})
    assert set(problems_of_all(store, asked)) - set(before) == {"2 of checkpoint, not 1"}
