"""Properties of what the test cluster is made of, for any order of changes."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.admission import patched, selector
from tests.cluster.containers import address, canonical, quantity, written
from tests.cluster.jobs import _indexes, _intervals
from tests.cluster.objects import JOBS, NAMESPACES, ApiError, Change, Objects

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("change"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("delete"), NAMES, st.sampled_from(["Background", "Foreground", "Orphan"])),
        st.tuples(st.just("release"), NAMES, st.just(0)),
    ),
    max_size=30,
)


def _apply(objects: Objects, step: tuple[str, str, Any]) -> None:
    what, name, value = step
    if what == "create":
        objects.create(JOBS, "default", {"metadata": {"name": name}, "spec": {"x": value}, "status": {}})
    elif what == "delete":
        objects.delete(JOBS, "default", name, {"propagationPolicy": value})
    elif what == "change":
        objects.change(JOBS, objects.get(JOBS, "default", name), lambda draft: draft["spec"].update(x=value))
    else:
        objects.change(
            JOBS, objects.get(JOBS, "default", name), lambda draft: draft["metadata"].pop("finalizers", None)
        )


def _apply_all(objects: Objects, steps: list[tuple[str, str, Any]]) -> None:
    """Apply what is not refused."""
    objects.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    for step in steps:
        with suppress(ApiError):
            _apply(objects, step)


def _folded(changes: list[Change]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for change in changes:
        name = change.object["metadata"]["name"]
        assert (change.type == "ADDED") == (name not in state)
        if change.type == "DELETED":
            del state[name]
        else:
            state[name] = change.object
    return state


@given(STEPS)
def test_a_history_adds_up_to_what_is_there(steps: list[tuple[str, str, Any]]) -> None:
    objects = Objects()
    _apply_all(objects, steps)
    changes = [change for change in objects.history if change.kind is JOBS]
    assert list(_folded(changes).values()) == objects.list(JOBS)
    versions = [change.version for change in objects.history]
    assert versions == sorted(set(versions))
    for change in changes:
        assert change.object["metadata"]["resourceVersion"] == str(change.version)


@given(STEPS)
def test_what_was_told_never_changes_afterwards(steps: list[tuple[str, str, Any]]) -> None:
    objects, told = Objects(), []
    objects.listeners.append(lambda change: told.append((change.object, repr(change.object))))
    _apply_all(objects, steps)
    assert [repr(item) for item, _ in told] == [text for _, text in told]


@given(st.sets(st.integers(0, 40)))
def test_indexes_are_written_as_they_are_read(indexes: set[int]) -> None:
    assert set(_indexes(_intervals(indexes))) == indexes


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 2}, "0-2"), ({0, 2, 3, 4, 6}, "0,2-4,6")]
)
def test_indexes_are_written_as_the_recorded_server_wrote_them(indexes: set[int], text: str) -> None:
    assert _intervals(indexes) == text


JSON = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.text(max_size=2), inner), max_leaves=8
)


@given(st.dictionaries(st.text(max_size=2), JSON), st.dictionaries(st.text(max_size=2), JSON | st.none()))
def test_a_merge_patch_says_the_same_twice_and_leaves_no_nulls(item: dict[str, Any], patch: dict[str, Any]) -> None:
    once = patched(item, patch)
    assert patched(once, patch) == once
    assert None not in once.values()
    assert {name: item[name] for name in item if name not in patch} == {
        name: once[name] for name in item if name not in patch
    }


@pytest.mark.parametrize(
    ("labels", "chosen"), [("a=1", "x"), ("a==1", "x"), ("a!=1", "yz"), ("a", "xy"), ("a,b", "y"), ("", "xyz")]
)
def test_label_selectors(labels: str, chosen: str) -> None:
    items = {"x": {"a": "1"}, "y": {"a": "2", "b": "1"}, "z": {}}
    match = selector(JOBS, labels, "")
    assert "".join(name for name, own in items.items() if match({"metadata": {"labels": own}})) == chosen


@given(st.integers(0, 2**50) | st.integers(0, 2**40).map(lambda amount: amount / 1000), st.booleans())
def test_quantities_are_read_as_they_are_written(amount: float, binary: bool) -> None:
    assert abs(quantity(written(amount, binary)) - amount) <= 1e-9 * amount


def test_quantities_are_read_as_kubernetes_writes_them() -> None:
    assert [quantity(text) for text in ("2", "500m", "1Ki", "1.5Gi", 3)] == [2, 0.5, 1024, 1.5 * 2**30, 3]


@pytest.mark.parametrize(
    ("asked", "given"),
    [("600Gi", "600Gi"), ("1024Gi", "1Ti"), ("1.5Gi", "1536Mi"), ("2000m", "2"), ("0.5", "500m"), (3, "3"),
     ("1000", "1k"), ("0", "0"), ("1500m", "1500m"), ("1000Gi", "1000Gi")],
)  # fmt: skip
def test_quantities_are_given_back_in_the_form_that_an_api_server_gives_them(asked: str | int, given: str) -> None:
    assert canonical(asked) == given


def test_a_name_always_has_the_same_address_on_the_loopback() -> None:
    addresses = {address("default", f"job-{at}", "job") for at in range(100)}
    assert len(addresses) == 100
    assert all(one.startswith("127.") and one != "127.0.0.1" for one in addresses)
    assert address("default", "job-0", "job") == address("default", "job-0", "job")
