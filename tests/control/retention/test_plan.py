from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.retention.plan import candidates, plan_retention
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.retention import Retention

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def versions(count: int, tenant: str = "acme", name: str = "things") -> list[DatasetKey]:
    return [DatasetKey(tenant=tenant, name=name, version=number) for number in range(1, count + 1)]


def aged(keys: list[DatasetKey], days: list[int]) -> dict[str, datetime]:
    return {str(key): NOW - timedelta(days=age) for key, age in zip(keys, days, strict=True)}


def test_what_either_rule_keeps_stays() -> None:
    keys = versions(4)
    added = aged(keys, [100, 90, 10, 1])
    both = Retention(keep_versions=1, keep_days=30)
    assert candidates(keys, {"acme": both}, added, NOW) == ["acme.things.v1", "acme.things.v2"]
    assert candidates(keys, {"acme": Retention(keep_versions=3)}, {}, NOW) == ["acme.things.v1"]
    assert candidates(keys, {"acme": Retention(keep_days=95)}, added, NOW) == ["acme.things.v1"]
    # Of whose age nobody knows, nothing is retired for its age.
    assert candidates(keys, {"acme": Retention(keep_days=1)}, {}, NOW) == []


def test_without_a_rule_nothing_is_retired() -> None:
    keys = versions(9) + versions(9, tenant="other")
    assert candidates(keys, {}, {}, NOW) == []
    assert candidates(keys, {"acme": Retention()}, {}, NOW) == []
    assert all(key.startswith("acme.") for key in candidates(keys, {"acme": Retention(keep_versions=1)}, {}, NOW))


@pytest.mark.statistics
@given(
    count=st.integers(1, 12),
    keep=st.one_of(st.none(), st.integers(1, 5)),
    days=st.one_of(st.none(), st.integers(1, 60)),
    data=st.data(),
)
def test_nothing_that_is_needed_new_or_mixed_in_by_what_stays_is_retired(
    count: int, keep: int | None, days: int | None, data: st.DataObject
) -> None:
    keys = versions(count) + versions(count, name="others")
    names = [str(key) for key in keys]
    rules = {"acme": Retention(keep_versions=keep, keep_days=days)}
    added = aged(keys, data.draw(st.lists(st.integers(0, 100), min_size=len(keys), max_size=len(keys))))
    wanted = candidates(keys, rules, added, NOW)
    needed = dict.fromkeys(data.draw(st.sets(st.sampled_from(names))), "production")
    mixes = data.draw(st.dictionaries(st.sampled_from(names), st.frozensets(st.sampled_from(names), max_size=3)))
    plan = plan_retention(wanted, needed, mixes)
    retired = set(plan.retire)
    assert not retired & set(needed)
    assert not retired & {f"acme.things.v{count}", f"acme.others.v{count}"}
    for name in set(names) - retired:
        assert not retired & mixes.get(name, frozenset())
    # And whatever is left of the candidates has a reason.
    assert retired | set(plan.kept) == set(wanted)
    if keep is not None:
        newest = {
            f"acme.{name}.v{number}" for name in ("things", "others") for number in range(count - keep + 1, count + 1)
        }
        assert not retired & newest
    if days is not None:
        assert all(NOW - added[name] > timedelta(days=days) for name in retired)
