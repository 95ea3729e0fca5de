"""The order of the windows: complete, fresh each epoch, and the same after any interruption."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.packs.sampler import Order

orders = st.builds(
    Order,
    windows=st.integers(1, 60),
    global_batch=st.integers(1, 20),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 2**31 - 1),
    block=st.integers(1, 70),
)


@given(order=orders)
def test_every_window_is_read_exactly_once_an_epoch(order: Order) -> None:
    for epoch in range(order.epochs):
        read = np.concatenate([step.windows for step in order.read() if step.epoch == epoch])
        assert sorted(read) == list(range(order.windows))


@given(order=orders, data=st.data())
def test_a_run_interrupted_anywhere_reads_what_a_quiet_run_reads(order: Order, data: st.DataObject) -> None:
    quiet = list(order.read())
    read, position = [], 0
    while len(read) < order.steps:
        upto = data.draw(st.integers(1, order.steps))
        for step in order.read(position):
            read.append(step)
            position = step.end
            if step.number >= upto:
                break
    assert [(step.number, step.epoch, step.end) for step in read] == [(s.number, s.epoch, s.end) for s in quiet]
    assert all((one.windows == other.windows).all() for one, other in zip(read, quiet, strict=True))


@given(order=orders, max_steps=st.integers(1, 200))
def test_max_steps_cuts_a_run_short_and_changes_nothing_before(order: Order, max_steps: int) -> None:
    cut = Order(
        windows=order.windows,
        global_batch=order.global_batch,
        epochs=order.epochs,
        seed=order.seed,
        max_steps=max_steps,
        block=order.block,
    )
    steps, whole = list(cut.read()), list(order.read())
    assert len(steps) == cut.steps == min(max_steps, order.steps)
    assert all((one.windows == other.windows).all() for one, other in zip(steps, whole, strict=False))


@given(order=orders)
def test_adjacent_windows_of_a_block_are_read_one_after_the_other(order: Order) -> None:
    for epoch in range(order.epochs):
        blocks = order.epoch_order(epoch) // order.block
        # As many changes of block as there are other blocks, so that none is left and entered again.
        assert np.count_nonzero(np.diff(blocks)) == -(-order.windows // order.block) - 1


def test_blocks_and_the_windows_inside_them_are_drawn_anew_each_epoch() -> None:
    order = Order(windows=60, global_batch=4, epochs=2, seed=17, block=12)
    one, other = (order.epoch_order(epoch).reshape(5, 12) for epoch in (0, 1))
    assert (one[:, 0] // 12).tolist() != (other[:, 0] // 12).tolist()
    inside = [epoch[np.argsort(epoch[:, 0] // 12)] for epoch in (one, other)]
    assert all((a != b).any() for a, b in zip(*inside, strict=True))


@given(order=orders)
def test_position_and_step_number_say_the_same(order: Order) -> None:
    assert [order.step_at(step.end) for step in order.read()] == list(range(1, order.steps + 1))
    assert order.step_at(0) == 0


def test_epochs_and_seeds_differ_and_the_order_never_changes_between_releases() -> None:
    order = Order(windows=8, global_batch=3, epochs=2, seed=17)
    assert order.epoch_order(0).tolist() != order.epoch_order(1).tolist()
    assert order.epoch_order(0).tolist() != Order(windows=8, global_batch=3, epochs=2, seed=18).epoch_order(0).tolist()
    # Written down: another order would make half-trained runs repeat and skip data when they resume.
    assert order.epoch_order(0).tolist() == [2, 3, 4, 0, 1, 7, 6, 5]
    blocks = Order(windows=8, global_batch=3, epochs=2, seed=17, block=3)
    assert blocks.epoch_order(0).tolist() == [5, 3, 4, 7, 6, 0, 1, 2]


@pytest.mark.parametrize(
    ("windows", "global_batch", "sizes"), [(65, 64, [33, 32]), (10, 4, [4, 3, 3]), (8, 4, [4, 4]), (3, 8, [3])]
)
def test_what_is_left_of_an_epoch_is_spread_over_its_steps_and_none_is_a_full_update_of_one_window(
    windows: int, global_batch: int, sizes: list[int]
) -> None:
    order = Order(windows=windows, global_batch=global_batch, epochs=2, seed=17)
    assert [len(step.windows) for step in order.read()] == 2 * sizes


@given(order=orders)
def test_steps_of_an_epoch_differ_by_one_window_at_most_and_none_is_above_the_batch(order: Order) -> None:
    sizes = [len(step.windows) for step in order.read()]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= order.global_batch
    assert order.steps == -(-order.windows // order.global_batch) * order.epochs
