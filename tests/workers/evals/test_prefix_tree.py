"""Common prefixes are planned once, and everything requested is predicted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.evals.prefix_tree import MIN_TRUNK, NARROW, Call, Limits, Path, PrefixTree

LIMITS = Limits(tokens=512, predictions=1 << 20)


def path(*tokens: int) -> Path:
    return Path(tokens=list(tokens), targets=[0])


def computed(tree: PrefixTree, calls: list[Call]) -> int:
    """Tokens that the model reads; of each trunk those that the one before did not have."""
    total, before = 0, list[int]()
    for call in calls:
        total += sum(len(tree.row(call.trunk, row).tokens) for row in call.rows)
        if call.trunk:
            trunk = tree.paths[call.rows[0][0]].tokens[: call.trunk]
            same = 0
            while same < min(len(trunk), len(before)) and trunk[same] == before[same]:
                same += 1
            total, before = total + len(trunk) - same, trunk
    return total


def test_few_shot_examples_are_computed_once_and_a_question_once_for_its_choices() -> None:
    shots = list(range(1000))
    paths = [path(*shots, 7, question, 7, choice) for question in range(30) for choice in range(4)]
    tree, _ = PrefixTree.of(paths)
    calls = list(tree.calls(LIMITS))
    assert {call.trunk for call in calls} == {1001}
    assert computed(tree, calls) == 1001 + 30 * (2 + 4)


def test_each_subject_has_a_trunk_of_its_own_behind_what_all_have_in_common() -> None:
    paths = [
        path(*[1] * 100, *[subject] * 200, *[question] * 20)
        for subject in range(10, 14)
        for question in range(100, 140)
    ]
    tree, _ = PrefixTree.of(paths)
    calls = list(tree.calls(LIMITS))
    assert {call.trunk for call in calls} == {300}
    assert computed(tree, calls) == 100 + 4 * (200 + 40 * 20)


def test_sequences_without_a_common_beginning_fill_rows_of_one_batch() -> None:
    paths = [path(number, *range(60)) for number in range(40)]
    tree, _ = PrefixTree.of(paths)
    calls = list(tree.calls(LIMITS))
    assert all(call.trunk == 0 for call in calls)
    widths = [[len(tree.row(0, row).tokens) for row in call.rows] for call in calls]
    assert all(max(each) <= NARROW and len(each) * max(each) <= LIMITS.tokens for each in widths)
    assert len(calls) < 10


tokens = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@st.composite
def families(draw: st.DrawFn) -> list[Path]:
    """Paths with many kinds of common prefixes: long, short, equal paths, one a prefix of another."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        trunk = [draw(st.integers(0, 1))] * draw(st.sampled_from([0, 5, MIN_TRUNK, 100, 700]))
        for end in draw(st.lists(tokens, min_size=1, max_size=8)):
            targets = draw(st.integers(1, len(end)))
            made.append(Path(tokens=trunk + end, targets=list(range(targets))))
    return made


@pytest.mark.statistics
@given(families(), st.integers(8, 300), st.integers(1, 40))
def test_every_token_sees_exactly_its_own_sequence_and_every_path_is_predicted_once(
    paths: list[Path], width: int, predictions: int
) -> None:
    tree, order = PrefixTree.of(paths)
    seen = []
    for call in tree.calls(Limits(tokens=width, predictions=predictions)):
        assert len(call.rows) == 1 or not call.trunk
        for members in call.rows:
            row = tree.row(call.trunk, members)
            trunk = tree.paths[members[0]].tokens[: call.trunk]
            for number, nodes, places in zip(members, row.paths, row.places, strict=True):
                wanted = paths[order[number]]
                assert trunk + [row.tokens[node] for node in nodes] == wanted.tokens
                assert [row.positions[node] for node in nodes] == list(range(call.trunk, len(wanted.tokens)))
                assert places == nodes[-len(wanted.targets) :]
            seen += members
    assert sorted(order[number] for number in seen) == list(range(len(paths)))
