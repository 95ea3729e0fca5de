"""What Kueue says of each flavour that it did not give: a workload's message lists one refusal after the other.

The words are those of Kueue's ``flavorassigner.go``, the same from 0.6 to 0.20.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BUSY = re.compile(r"insufficient unused quota for \S+ in flavor ([\w.-]+)")
_NEVER = re.compile(
    r"insufficient quota for \S+ in flavor ([\w.-]+),[^>]*> maximum capacity \((?:[^()>]*> *)?([^()>]*)\)"
)
_SCATTERED = re.compile(r'topology "([\w.-]+)" (?:doesn\'t allow to fit any|allows to fit only \d+ out) of \d+ pod')
_NO_LEVEL = re.compile(r"no topology domains at level: (\S+?)(?:,|\.? |\.?$)")
# A flavour without a topology says "does not support", to work that needs GPUs and is not for its nodes anyway.
_OTHERWISE = re.compile(
    r'Flavor "([\w.-]+)" (?:supports only TopologyAwareScheduling|does not contain the requested level)'
)
_TAINT = re.compile(r"untolerated taint \{([^}]*)\} in flavor ([\w.-]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlavourWords:
    """Flavours by why a workload did not get them.

    Args:
        busy: they could have it, once other work ends.
        small: they have what it asks for, but never as much.
        tainted: with the first taint that its pods do not tolerate, such as ``nvidia.com/gpu=present:NoSchedule``.
        scattered: topologies (not flavours) whose free nodes do not lie as it needs them.
        unlabelled: levels of topologies whose labels no ready node has.
        otherwise: they have a topology, and its Job does not ask for a level of it.
    """

    busy: Sequence[str]
    small: Sequence[str]
    tainted: dict[str, str]
    scattered: Sequence[str]
    unlabelled: Sequence[str]
    otherwise: Sequence[str]


def read_flavour_words(said: str) -> FlavourWords:
    """The refusals in a message of a workload's condition ``QuotaReserved``."""
    never = dict(_NEVER.findall(said))
    return FlavourWords(
        busy=[name for name in _BUSY.findall(said) if name not in never],
        # Flavours without GPUs have a quota of 0 of them: a Job with GPUs is not too large for those.
        small=[name for name, most in never.items() if most != "0"],
        tainted={flavour: _taint(words) for words, flavour in _TAINT.findall(said)},
        scattered=_SCATTERED.findall(said),
        unlabelled=_NO_LEVEL.findall(said),
        otherwise=_OTHERWISE.findall(said),
    )


def _taint(words: str) -> str:
    """A taint as Go prints its fields, as kubectl writes it. The value may be empty."""
    key, *value, effect = words.removesuffix(" <nil>").split(" ")
    return f"{key}={' '.join(value)}:{effect}"
