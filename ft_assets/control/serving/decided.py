"""Whether somebody decided that an adapter may be served on a base: asked when it is loaded."""

from ft_assets.control.lines.lines import POINTERS, read_line
from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_resources.artifacts import InputRef
from ft_resources.serving.fleet import ServedModel
from ft_resources.signatures import Unsigned, trusted_keys
from ft_resources.store import Store


def require_decided(store: Store, model: ServedModel) -> None:
    """Raise Unsigned where ``FT_TRUSTED_KEYS`` is set and no signed record of the line names exactly this adapter and
    this base. Raises CorruptArtifact, Misconfigured and StoreUnavailable, too."""
    if trusted_keys() is None:
        return
    adapter = InputRef(address=model.address, digest=model.digest)
    standing = [each for each in read_line(store, model.line).records if each.stage in POINTERS]
    bases = {each.base.digest for each in standing if each.adapter == adapter}
    started = [each.started for each in read_rollouts(store, model.line).rollouts]
    bases |= {each.base.digest for each in started if each.candidate == adapter and each.base is not None}
    if model.base not in bases:
        raise Unsigned(
            f"no signed decision puts it on {'this base' if bases else 'a server'} of line {model.line}",
            where=model.address,
            remedy=f"Promote it first: ft promote {model.address} --to staging --reason …",
        )
