"""The definition of an export format."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportFormat:
    """A form in which an adapter leaves the platform together with its base, as one model.

    Args:
        name: its name in a recipe's ``exports`` and in ``ft export --format``.
        what: what is made, as a clause.
        asset: the asset that holds it, which is also the kind of work.
        work: ``module:function`` of the worker that makes it from the inputs ``adapter``, ``base`` and ``dataset``.
        code_version: of that worker; see ``settings.code_versions``.
    """

    name: str
    what: str
    asset: str
    work: str
    code_version: str
