"""Whether the records of a line's rollouts are unaltered."""

from collections.abc import Iterator

from ft_assets.control.lines.signing import unsigned_decisions
from ft_assets.control.rollouts.rollouts import read_unproved
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact


def rollout_findings(artifacts: Artifacts, line: str) -> Iterator[str]:
    """Sentences that name what was altered: a record of the log, or an adapter that a record is about."""
    try:
        rollouts = read_unproved(artifacts.store, line).rollouts
    except CorruptArtifact as error:
        yield f"{error.where}: {error.what}"
        return
    for rollout in rollouts:
        yield from unsigned_decisions(artifacts.store, [each for each in rollout.records if each.going])
        for name, ref in (("candidate", rollout.started.candidate), ("incumbent", rollout.started.incumbent)):
            try:
                found = artifacts.find(Address.parse(ref.address))
            except CorruptArtifact as error:
                yield f"{error.where}: {error.what}"
                continue
            if found is not None and found.ref != ref:
                yield f"{rollout.started.path}: the {name}'s content differs from the one that was rolled out"
