"""Signatures of what was decided before there was this key."""

from ft_assets.control.lines import lines
from ft_assets.control.lines.signing import Decided, sign_decisions
from ft_assets.control.rollouts import rollouts
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.store import Store


def sign_decided(artifacts: Artifacts, line: str, adapter: InputRef | None = None) -> bool:
    """Sign the records that put an adapter of a line into a stage or a rollout, those of one or of all; returns whether
    a signature is new. Raises CorruptArtifact and StoreUnavailable."""
    found = _decided(artifacts.store, line)
    return sign_decisions(artifacts.store, [record for record, ref in found if adapter in (None, ref)])


def _decided(store: Store, line: str) -> list[tuple[Decided, InputRef]]:
    moves = lines.read_unproved(store, line).records
    steps = [record for rollout in rollouts.read_unproved(store, line).rollouts for record in rollout.records]
    found: list[tuple[Decided, InputRef]] = [(each, each.adapter) for each in moves if each.stage in lines.POINTERS]
    return [*found, *((each, each.candidate) for each in steps if each.going)]
