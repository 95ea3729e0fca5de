"""``hardware.gpus: {min, max}``: the possible sizes, and what a training requests."""

import pytest

from ft_assets.settings.recipe.hardware import GpuRange, HardwareSettings
from ft_resources.errors import UserError
from tests.workers.training.configuration.made import recipe, settled


@pytest.mark.parametrize(
    ("fewest", "most", "sizes"),
    [(1, 8, (8, 4, 2, 1)), (2, 8, (8, 4, 2)), (3, 8, (8, 4)), (1, 6, (6, 3)), (1, 2, (2, 1))],
)
def test_sizes_are_the_largest_as_often_halved_as_it_goes(fewest: int, most: int, sizes: tuple[int, ...]) -> None:
    found = recipe(hardware={"gpus": {"min": fewest, "max": most}}).hardware
    assert found.sizes == sizes
    assert (found.most_gpus, found.all_gpus, found.world, found.elastic) == (most, most, most, True)


@pytest.mark.parametrize("gpus", [{"min": 5, "max": 8}, {"min": 1, "max": 7}, {"min": 4, "max": 2}])
def test_a_range_with_one_size_is_refused(gpus: dict[str, int]) -> None:
    with pytest.raises(UserError, match="a single size only"):
        recipe(hardware={"gpus": gpus})


@pytest.mark.parametrize("gpus", [{"min": 0, "max": 8}, {"min": 2, "max": 16}, {"min": 2}, -1, 9, "8"])
def test_what_is_no_number_of_gpus_is_refused(gpus: object) -> None:
    with pytest.raises(UserError, match="gpus"):
        recipe(hardware={"gpus": gpus})


def test_a_number_is_stored_as_before_and_is_not_elastic() -> None:
    found = HardwareSettings(gpus=4)
    assert found.model_dump(mode="json")["gpus"] == 4
    assert (found.sizes, found.elastic, found.resources(4, elastic=True).gpu_sizes) == ((4,), False, ())


def test_only_a_training_takes_what_there_is() -> None:
    found = HardwareSettings(gpus=GpuRange(min=2, max=8), nodes=2)
    assert found.resources(8, elastic=True).gpu_sizes == (8, 4, 2)
    assert found.resources(1).gpu_sizes == ()


def test_weights_of_an_elastic_training_are_whole_on_each_gpu() -> None:
    made = settled(hardware={"gpus": {"min": 2, "max": 8}, "gpu_type": "H100"})
    assert made.hardware.sharding == "none"
    assert made.training.global_batch_size % 8 == 0
