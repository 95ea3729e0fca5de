"""The ledger proves that data was read exactly once per epoch, and notices when it was not."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.data_ledger import check_ledger, ledger_line, parse_line


@dataclass
class FakePack:
    """The part of a pack that the ledger reads: each window's documents and each document's example."""

    examples: np.ndarray
    window_offsets: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.window_offsets) - 1

    def examples_of(self, windows: Iterable[int]) -> np.ndarray:
        return np.concatenate([self.examples[self.window_offsets[w] : self.window_offsets[w + 1]] for w in windows])

    def weights_of(self, examples: np.ndarray) -> np.ndarray | None:
        return None if self.weights is None else self.weights[examples]

    def documents_by_example(self) -> np.ndarray:
        return np.bincount(self.examples)


@st.composite
def packs(draw: st.DrawFn) -> FakePack:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=25))
    documents = sum(sizes)
    order = np.array(draw(st.permutations(range(documents))))
    if draw(st.booleans()):
        order.sort()
    return FakePack(order, np.cumsum([0, *sizes]))


def run_of(pack: FakePack, epochs: int = 2, global_batch: int = 3, max_steps: int | None = None) -> Order:
    return Order(windows=len(pack), global_batch=global_batch, epochs=epochs, seed=1, max_steps=max_steps)


@given(pack=packs(), epochs=st.integers(1, 3), global_batch=st.integers(1, 9))
def test_the_ledger_of_a_whole_run_has_no_findings(pack: FakePack, epochs: int, global_batch: int) -> None:
    order = run_of(pack, epochs, global_batch)
    assert check_ledger([ledger_line(pack, step) for step in order.read()], pack, order) == []


@given(pack=packs(), max_steps=st.integers(1, 30))
def test_a_run_cut_short_by_max_steps_has_no_findings(pack: FakePack, max_steps: int) -> None:
    order = run_of(pack, max_steps=max_steps)
    assert check_ledger([ledger_line(pack, step) for step in order.read()], pack, order) == []


@given(pack=packs(), data=st.data())
def test_a_step_lost_repeated_or_swapped_is_found(pack: FakePack, data: st.DataObject) -> None:
    order = run_of(pack)
    lines = [ledger_line(pack, step) for step in order.read()]
    place = data.draw(st.integers(0, len(lines) - 1))
    lost = lines[:place] + lines[place + 1 :]
    repeated = [*lines[: place + 1], lines[place], *lines[place + 1 :]]
    assert check_ledger(lost, pack, order)
    assert check_ledger(repeated, pack, order)
    # The same, covered up by new numbers, is found in the examples.
    entry = parse_line(lines[place])
    other = json.dumps({"epoch": entry.epoch, "examples": [], "step": entry.step})
    assert check_ledger([*lines[:place], other, *lines[place + 1 :]], pack, order)


@given(pack=packs())
def test_a_line_reads_back_as_the_examples_of_its_step_in_order(pack: FakePack) -> None:
    for step in run_of(pack).read():
        entry = parse_line(ledger_line(pack, step))
        assert entry.examples.tolist() == pack.examples_of(step.windows).tolist()
        assert (entry.step, entry.epoch) == (step.number, step.epoch)


def test_runs_of_examples_are_written_as_ranges() -> None:
    pack = FakePack(np.array([4, 5, 6, 7, 1, 2]), np.array([0, 6]))
    line = ledger_line(pack, next(iter(run_of(pack).read())))
    assert line == '{"epoch":0,"examples":[[4,7],1,2],"step":1}'


def test_an_example_that_the_pack_does_not_have_is_found() -> None:
    pack = FakePack(np.array([0, 1]), np.array([0, 2]))
    order = run_of(pack, epochs=1)
    assert any("does not have" in text for text in check_ledger(['{"epoch":0,"examples":[0,7],"step":1}'], pack, order))


@pytest.mark.parametrize("line", ["", "[]", '{"step":1}', '{"epoch":0,"examples":[[1]],"step":1}'])
def test_a_line_that_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"ledger|Expecting"):
        parse_line(line)


def test_a_line_has_the_weights_of_its_examples() -> None:
    pack = FakePack(np.arange(6), np.array([0, 2, 6]), np.array([2.0, 2.0, 0.1, 2.0, 3.0, 3.0]))
    (step,) = run_of(pack, epochs=1).read()
    line = ledger_line(pack, step)
    examples = pack.examples_of(step.windows)
    assert json.loads(line)["weights"] == (
        [0.1, 2.0, [3.0, 2], [2.0, 2]] if examples[0] else [[2.0, 2], 0.1, 2.0, [3.0, 2]]
    )
    weights = parse_line(line).weights
    assert weights is not None
    assert weights.tolist() == pack.weights_of(examples).tolist()


@given(pack=packs(), data=st.data())
def test_a_weight_that_the_example_does_not_have_is_found(pack: FakePack, data: st.DataObject) -> None:
    weights = st.lists(st.sampled_from([0.1, 1.0, 2.0]), min_size=len(pack.examples), max_size=len(pack.examples))
    pack.weights = np.array(data.draw(weights))
    order = run_of(pack)
    lines = [ledger_line(pack, step) for step in order.read()]
    assert check_ledger(lines, pack, order) == []
    place = data.draw(st.integers(0, len(lines) - 1))
    entry = json.loads(lines[place])
    if data.draw(st.booleans()):
        del entry["weights"]
    else:
        entry["weights"] = [[5.0, len(parse_line(lines[place]).examples)]]
    (finding,) = check_ledger([*lines[:place], json.dumps(entry), *lines[place + 1 :]], pack, order)
    assert finding == f"step {place + 1} names other weights than the examples have"
