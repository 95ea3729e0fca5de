"""The ledger proves that data was read exactly once per epoch, and notices when it was not."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ft_assets.cli.main import app
from ft_assets.control import identity
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.data_ledger import check_ledger, ledger_line, parse_line
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from tests.workers.training.conftest import Bench, make_bench


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


def trained(bench: Bench, lines: list[str]) -> Artifact:
    """The checkpoint that a training with this ledger would have left."""
    folder = bench.scratch / "made"
    folder.mkdir(parents=True)
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "recipe.json").write_text(json.dumps(bench.params))
    named = {"ledger": lines}
    address = Address(tenant="acme", asset="checkpoint", fingerprint=digest(named))
    inputs = {"pack": bench.inputs["pack"].ref}
    return Artifacts(bench.store).publish(address, folder, writer="w1", identity=named, inputs=inputs, actor="test")


Ledger = Callable[[Bench, list[str]], Result]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Runs ``ft ledger`` on a checkpoint with this ledger."""

    def call(bench: Bench, lines: list[str]) -> Result:
        made = trained(bench, lines)
        for name in ("FT_STATE", "DAGSTER_HOME", "FT_TENANTS"):
            monkeypatch.setenv(name, str(tmp_path / "state"))
        monkeypatch.setenv("FT_STORE", bench.store.url)
        monkeypatch.setattr(identity, "checkpoint", lambda _artifacts, _dataset, _recipe: made)
        return CliRunner().invoke(app, ["ledger", "acme.counting.v1", "tiny.v1"])

    return call


def whole(bench: Bench) -> list[str]:
    return [ledger_line(bench.pack, step) for step in bench.order.read()]


def test_a_clean_ledger_is_said_to_be_one(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    result = ledger(bench, whole(bench))
    assert result.exit_code == 0
    assert result.stdout == "Every example was read exactly once per epoch.\n"
    assert "2 epoch(s), 60 examples" in result.stderr


def test_a_run_cut_short_promises_no_more_than_it_can(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path, max_steps=3)
    result = ledger(bench, whole(bench))
    assert result.exit_code == 0
    assert result.stdout == "No example was read twice in an epoch.\n"


def test_a_step_read_twice_is_a_finding_and_an_exit_code(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    lines = whole(bench)
    lines[2] = lines[1].replace('"step":2', '"step":3')
    result = ledger(bench, lines)
    assert result.exit_code == 1
    assert "epoch 0 missed" in result.stdout
    assert "repeated" in result.stdout


def test_a_ledger_that_cannot_be_read_is_an_error_that_says_where(ledger: Ledger, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    result = ledger(bench, [*whole(bench)[:-1], "not a line"])
    assert result.exit_code == 2
    assert "ledger cannot be read" in result.stderr
