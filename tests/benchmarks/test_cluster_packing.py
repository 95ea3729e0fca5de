"""The simulated trainings in parts of GPUs: how many GPUs they need, and what they are billed."""

import pytest

from benchmarks.cluster_packing import BASES, TRAININGS, Training, figures, gpus


def many(gpu_type: str, number: int, seconds: float) -> list[Training]:
    return [Training(gpu_type=gpu_type, seconds=seconds, share=1.0) for _ in range(number)]


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        (many("H100", 3, 60.0), 3),
        (many("H100", 3, 50.0), 2),
        (many("H100-1g.10gb", 7, 60.0), 1),
        (many("H100-1g.10gb", 8, 60.0), 2),
        (many("H100-1g.10gb", 14, 50.0), 1),
        ([*many("H100-1g.10gb", 1, 60.0), *many("H100-3g.40gb", 2, 60.0)], 2),
    ],
)
def test_a_gpu_is_divided_into_parts_of_one_kind(found: list[Training], needed: int) -> None:
    assert gpus(found, within_s=100.0) == needed


@pytest.mark.statistics
def test_parts_need_fewer_gpu_hours_and_gpus_than_whole_ones() -> None:
    assert sum(many for _, many in BASES) == TRAININGS
    hours, number = figures()
    assert (hours.met, number.met) == (True, True)
    assert hours.ours is not None
    assert hours.peer is not None
    assert 0.3 < hours.ours / hours.peer < 0.9
