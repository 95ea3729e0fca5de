"""The adapters that servers should load, from the stages of lines. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ft_assets.control.lines.lines import LineState, Pointer, PromotionRecord
from ft_resources.serving.fleet import ServedModel

SERVED: tuple[Pointer, ...] = ("production", "staging")
"""The stages whose adapters are served; dev is not."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An adapter that servers should have.

    Args:
        base_address: of the artifact of its base.
        stages: its stages. Empty for one that was in a stage before: it stays where it is loaded, so that a rollback is
            quick, but is not loaded anew.
    """

    model: ServedModel
    base_address: str
    stages: tuple[Pointer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WantedBase:
    """A base that has adapters in stages."""

    address: str
    digest: str


def wanted_of(state: LineState, is_deleted: Callable[[PromotionRecord], bool]) -> list[Wanted]:
    """The adapters that one line wants: none that is deleted or archived."""
    stages: dict[str, list[Pointer]] = {}
    records: dict[str, PromotionRecord] = {}
    for stage in SERVED:
        for record in reversed(state.standing[stage][-2:]):
            if is_deleted(record) or record.adapter.address in state.archived:
                continue
            name = model_of(record).name
            records.setdefault(name, record)
            stages.setdefault(name, []).extend([stage] if record is state.at(stage) else [])
    return [
        Wanted(model=model_of(record), base_address=record.base.address, stages=tuple(stages[name]))
        for name, record in records.items()
    ]


def banned_of(state: LineState, is_deleted: Callable[[PromotionRecord], bool]) -> list[ServedModel]:
    """Deleted or archived adapters, which one line must not serve any more."""
    return [
        model_of(record) for record in state.records if record.adapter.address in state.archived or is_deleted(record)
    ]


def model_of(record: PromotionRecord) -> ServedModel:
    """The wanted adapter of a promotion record."""
    return ServedModel(
        line=record.line, address=record.adapter.address, digest=record.adapter.digest, base=record.base.digest
    )


def bases_of(wanted: Sequence[Wanted], before: Sequence[str]) -> list[WantedBase]:
    """The bases of what stands in stages: those of production first, among them those with a server ``before``
    (digests), so that a new base does not take the place of one that answers."""
    found: dict[str, WantedBase] = {}
    production: set[str] = set()
    for each in wanted:
        if each.stages:
            found.setdefault(each.model.base, WantedBase(address=each.base_address, digest=each.model.base))
            if "production" in each.stages:
                production.add(each.model.base)
    place = {digest: number for number, digest in enumerate(before)}
    return sorted(
        found.values(),
        key=lambda base: (base.digest not in production, place.get(base.digest, len(place)), base.digest),
    )
