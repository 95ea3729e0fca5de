"""The definition of an export format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportFormat:
    """A form in which an adapter leaves the platform together with its base, as one model.

    Args:
        name: its name in a recipe's ``exports`` and in ``ft export --format``.
        what: what is made, as a clause.
        asset: the asset that holds it, which is also the kind of work. Formats of one asset share its work.
        work: ``module:function`` of the worker that makes it from the inputs ``adapter``, ``base`` and ``dataset``, and
            of what is made of another format, from the input ``exported``.
        code_version: of that worker; see ``settings.code_versions``.
        bits: of a weight; None where it is as in the base.
        only_matrices: whether ``bits`` are those of the layers' matrices only, and the others are as in the base.
        served_on: the GPUs on which an engine computes with it, as told to people; empty where any machine does.
        made_of: the format that it is made of; None for one that is made of adapter and base.
        settings: what tells formats of one asset apart, as the worker's params.
    """

    name: str
    what: str
    asset: str
    work: str
    code_version: str
    bits: float | None = None
    only_matrices: bool = False
    served_on: str = ""
    made_of: "ExportFormat | None" = None
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def steps(self) -> "tuple[ExportFormat, ...]":
        """The formats to make in this order; this one is the last."""
        return (*(self.made_of.steps if self.made_of else ()), self)
