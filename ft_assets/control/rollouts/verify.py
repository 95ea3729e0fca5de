"""Whether the records of a line's rollouts are unaltered."""

from collections.abc import Iterator

from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact


def rollout_findings(artifacts: Artifacts, line: str) -> Iterator[str]:
    """Sentences that name what was altered: a record of the log, or an adapter that a record is about."""
    try:
        rollouts = read_rollouts(artifacts.store, line).rollouts
    except CorruptArtifact as error:
        yield f"{error.where}: {error.what}"
        return
    for rollout in rollouts:
        for name, ref in (("candidate", rollout.started.candidate), ("incumbent", rollout.started.incumbent)):
            try:
                found = artifacts.find(Address.parse(ref.address))
            except CorruptArtifact as error:
                yield f"{error.where}: {error.what}"
                continue
            if found is not None and found.ref != ref:
                yield f"{rollout.started.path}: the {name}'s content differs from the one that was rolled out"
