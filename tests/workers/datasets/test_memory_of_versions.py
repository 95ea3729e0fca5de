"""Each version is curated with what the versions before it held out, whatever became of them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ft_assets.control.erasure.collect import collect
from ft_assets.control.identity import dataset, dataset_request
from ft_assets.control.identity.held_out import settle_held_out
from ft_assets.records.names import DATASET, HELD_OUT
from ft_assets.records.retired_datasets import retire
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.dataset.policy import DatasetPolicy, SplitSettings
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.errors import BadData, MissingInput, WorkFailed
from ft_resources.outcomes import Outcome
from ft_resources.work import WorkRequest
from tests.made import leave
from tests.workers.datasets.conftest import Add, WriteRows, run_curation, told

GOOD = [told(number) for number in range(120)]
Asked = list[str]


def ids(artifact: Artifact, side: str, scratch: Path) -> set[str]:
    return set(pq.read_table(artifact.path(f"{side}.parquet", scratch))["id"].to_pylist())


@pytest.fixture
def versions(add: Add, write: WriteRows) -> Callable[[int], list[str]]:
    """Versions 1 to ``count`` of a dataset, each with another seed of the split."""

    def added(count: int) -> list[str]:
        policies = [DatasetPolicy(split=SplitSettings(seed=seed)) for seed in range(count)]
        return [str(add(write(GOOD), policy).key) for policy in policies]

    return added


def curation(
    artifacts: Artifacts, asked: Asked, failing: dict[str, tuple[Exception, Outcome]]
) -> Callable[..., Artifact]:
    """A curation that notes which versions it is asked for, and leaves a memory named after each."""

    def make(request: WorkRequest) -> Artifact:
        asked.append(request.label)
        if request.label in failing:
            error, outcome = failing[request.label]
            attempt = Attempt(artifacts.store, request.address, 1)
            attempt.claim("tester")
            attempt.record_ending(outcome)
            raise error
        return leave(artifacts, request, {"held_out.arrow": request.label.encode()}, {})

    return make


def remembered(artifacts: Artifacts, key: str) -> str:
    """The version whose memory ``key`` is given."""
    ref = dataset_request(artifacts, key).inputs.get("held_out")
    return artifacts.get(Address.parse(ref.address)).read("held_out.arrow").decode() if ref else ""


def test_what_a_version_held_out_is_in_no_later_ones_training(
    versions: Callable[[int], list[str]], artifacts: Artifacts, tmp_path: Path
) -> None:
    first, second, third = versions(3)
    made = run_curation(artifacts, third, tmp_path)
    held = [ids(dataset(artifacts, key), "holdout", tmp_path) for key in (first, second)]
    assert all(len(each) > 3 for each in held)
    assert ids(made, "train", tmp_path).isdisjoint(held[0] | held[1])
    assert ids(dataset(artifacts, second), "train", tmp_path).isdisjoint(held[0])


def test_versions_before_are_curated_first_and_once(versions: Callable[[int], list[str]], artifacts: Artifacts) -> None:
    first, second, third = versions(3)
    with pytest.raises(MissingInput):
        dataset_request(artifacts, third)
    asked = Asked()
    settle_held_out(artifacts, third, curation(artifacts, asked, {}), actor="tester")
    settle_held_out(artifacts, third, curation(artifacts, asked, {}), actor="tester")
    assert asked == [first, second]
    assert [remembered(artifacts, key) for key in (first, second, third)] == ["", first, second]


@pytest.mark.parametrize("outcome", [Outcome.BAD_DATA, Outcome.USER_ERROR])
def test_a_version_that_is_refused_has_held_out_nothing(
    versions: Callable[[int], list[str]], artifacts: Artifacts, outcome: Outcome
) -> None:
    first, second, third = versions(3)
    make = curation(artifacts, Asked(), {second: (BadData("its rows are bad"), outcome)})
    settle_held_out(artifacts, third, make, actor="tester")
    assert remembered(artifacts, third) == first


def test_a_failure_that_may_pass_settles_nothing(versions: Callable[[int], list[str]], artifacts: Artifacts) -> None:
    _, second, third = versions(3)
    make = curation(artifacts, Asked(), {second: (WorkFailed("no worker"), Outcome.PLATFORM_ERROR)})
    with pytest.raises(WorkFailed):
        settle_held_out(artifacts, third, make, actor="tester")
    assert not HELD_OUT.exists(artifacts.store, third)


def test_retired_and_deleted_versions_are_not_made_for_their_memory(
    versions: Callable[[int], list[str]], artifacts: Artifacts
) -> None:
    first, second, third, fourth = versions(4)
    retire(artifacts.store, second, actor="tester", reason="old")
    delete(artifacts.store, Subject.dataset(DatasetKey.parse(third)), actor="tester", reason="asked")
    asked = Asked()
    settle_held_out(artifacts, fourth, curation(artifacts, asked, {}), actor="tester")
    assert asked == [first]
    assert remembered(artifacts, fourth) == first


def test_an_erased_version_is_remembered_without_its_texts_and_stops_nobody(
    versions: Callable[[int], list[str]], artifacts: Artifacts, tmp_path: Path
) -> None:
    first, second = versions(2)
    made = run_curation(artifacts, second, tmp_path)
    earlier = dataset(artifacts, first)
    delete(artifacts.store, Subject.dataset(DatasetKey.parse(first)), actor="tester", reason="asked")
    erased = collect(artifacts, datetime.now(UTC) + timedelta(days=31))
    assert str(earlier.address) in erased.addresses
    assert artifacts.find(earlier.address) is None
    assert dataset(artifacts, second).address == made.address
    memory = artifacts.get(Address.parse(made.manifest.inputs["held_out"].address))
    assert memory.verify() == []
    words = {word for row in GOOD for word in row["completion"].split()}
    data = memory.read("held_out.arrow")
    assert not [word for word in words if word.encode() in data]


def test_a_version_of_before_has_no_memory_and_stays_what_it_was(
    versions: Callable[[int], list[str]], artifacts: Artifacts
) -> None:
    first, second = versions(2)
    path = DATASET.path(second)
    record = artifacts.store.get_json(path)
    assert record.pop("follows") == first
    artifacts.store.delete(path)
    artifacts.store.create_json(path, record)
    asked = Asked()
    settle_held_out(artifacts, second, curation(artifacts, asked, {}), actor="tester")
    assert asked == []
    assert set(dataset_request(artifacts, second).inputs) == {"raw"}
