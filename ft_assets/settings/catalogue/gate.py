"""The definition of a gate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ft_resources.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A condition that a candidate must meet to become an adapter.

    Args:
        name: its name in checks, verdicts and waivers.
        claim: what a pass means, as a sentence; the description of its check.
        setting: its field in the recipe's ``gates``.
        settings: the type of that field; None if it is a list.
        measure: maps the evidence (``workers.evals.evidence.Measured``), that field and the keys of the suites that
            must have been scored to the arguments of ``verdict``.
        verdict: ``module:function`` that judges the measurements.
        remedy: what to do about a failed candidate, as a clause.
        always: whether every recipe has it; the verdict then says if the gate is not required.
        waivable: whether a person may waive an inconclusive verdict. True for gates measured on the tenant's own data,
            which may have no more samples; for others the remedy is more items.
        stricter: thresholds that a submission may tighten, with the direction that is stricter for each.
    """

    name: str
    claim: str
    setting: str
    settings: type[Settings] | None
    measure: Callable[[Any, Any, Sequence[str]], tuple[Any, ...]]
    verdict: str
    remedy: str
    always: bool = False
    waivable: bool = False
    stricter: Mapping[str, Literal["<", ">"]] = field(default_factory=dict)
