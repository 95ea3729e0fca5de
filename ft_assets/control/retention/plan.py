"""Which dataset versions can be retired: a pure plan over versions, rules and what is needed."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.retention import Retention


@dataclass(frozen=True, kw_only=True)
class RetentionPlan:
    """Keys to retire, oldest version first, and keys that are due but needed, with the reason."""

    retire: tuple[str, ...]
    kept: Mapping[str, str]


def candidates(
    versions: Iterable[DatasetKey], rules: Mapping[str, Retention], added: Mapping[str, datetime], now: datetime
) -> list[str]:
    """Keys that their tenant's rules do not keep. The newest version of a dataset is always kept.

    ``added`` has the times for tenants with ``keep_days``; a version without one is kept.
    """
    by_name: dict[tuple[str, str], list[DatasetKey]] = defaultdict(list)
    for key in versions:
        if key.tenant in rules and rules[key.tenant].on:
            by_name[key.tenant, key.name].append(key)
    found: list[DatasetKey] = []
    for (tenant, _), keys in by_name.items():
        rule = rules[tenant]
        keys.sort(key=lambda key: key.version)
        for key in keys[: -(rule.keep_versions or 1)]:
            old = rule.keep_days is None or (
                str(key) in added and now - added[str(key)] > timedelta(days=rule.keep_days)
            )
            if old:
                found.append(key)
    return [str(key) for key in sorted(found, key=lambda key: (key.version, key.tenant, key.name))]


def plan_retention(
    wanted: Iterable[str], needed: Mapping[str, str], mixes: Mapping[str, Collection[str]]
) -> RetentionPlan:
    """Pure.

    Args:
        wanted: keys that the rules do not keep.
        needed: keys that something needs, and what.
        mixes: the keys that each version mixes in, of all versions that may stay.
    """
    kept: dict[str, str] = {}
    ordered = list(wanted)
    left = set(ordered)

    def keep(key: str, why: str) -> None:
        waiting = [(key, why)]
        while waiting:
            current, reason = waiting.pop()
            if current in left:
                left.discard(current)
                kept[current] = reason
                waiting += [(other, f"{current} mixes it in") for other in mixes.get(current, ())]

    for key in sorted(needed):
        keep(key, needed[key])
        for other in mixes.get(key, ()):
            keep(other, f"{key} mixes it in")
    for key in sorted(mixes):
        if key not in left:
            for other in mixes[key]:
                keep(other, f"{key} mixes it in")
    return RetentionPlan(retire=tuple(key for key in ordered if key in left), kept=kept)
