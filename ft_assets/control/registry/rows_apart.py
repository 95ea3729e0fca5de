"""Looks at and checks the rows of uploads, those of all but small files in a process with limits.

Millions of short rows fit into a few megabytes, and each costs some Python: beside a server's requests that would be
seconds in which nobody is answered, without an end that anybody set. ``python -m`` this module is that process: an
order as JSON on stdin, an answer as JSON on stdout.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.first_rows import look
from ft_assets.control.registry.precheck import Checked, check_uploads
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.forms.guess import Guess
from ft_assets.workers.datasets.intake.file_refusals import refusal
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.sandbox import run_limited
from ft_assets.workers.datasets.intake.spool import Spool
from ft_assets.workers.libraries import COMPILES
from ft_resources.errors import BadData, BadRecipe

HERE = 256 << 10
"""Bytes of rows up to which a process would take longer to start than to read them."""
_LIMITS = ReadLimits()
_MODULE = "ft_assets.control.registry.rows_apart"
Looked = tuple[str, DatasetPolicy, str]


@dataclass(frozen=True, kw_only=True)
class _Order:
    work: Literal["check", "look"]
    spools: tuple[Spool, ...]
    policy: DatasetPolicy
    limits: ReadLimits = _LIMITS
    cpu_seconds: int = 0


@dataclass(frozen=True, kw_only=True)
class _Refused:
    kind: Literal["data", "recipe", "columns"]
    what: str
    where: str
    remedy: str
    guess: Guess | None = None

    @classmethod
    def of(cls, error: BadData | BadRecipe) -> "_Refused":
        columns = isinstance(error, UnknownColumns)
        return cls(
            kind="columns" if columns else "recipe" if isinstance(error, BadRecipe) else "data",
            what=error.what,
            where=error.where,
            remedy=error.remedy,
            guess=error.guess if isinstance(error, UnknownColumns) else None,
        )

    @property
    def error(self) -> BadData | BadRecipe:
        if self.kind == "recipe":
            return BadRecipe(self.what, where=self.where, remedy=self.remedy)
        found = BadData(self.what, where=self.where, remedy=self.remedy)
        return UnknownColumns(found, self.remedy, self.guess) if self.kind == "columns" else found


@dataclass(frozen=True, kw_only=True)
class _Answer:
    checked: Checked | None = None
    looked: Looked | None = None
    refused: _Refused | None = None


_ORDER, _ANSWER = TypeAdapter(_Order), TypeAdapter(_Answer)


def check_rows(spools: Sequence[Spool], policy: DatasetPolicy) -> Checked:
    """``check_uploads``. Raises as it does, and BadData where that takes more time or memory than is allowed."""
    if _bytes(spools) <= HERE:
        return check_uploads(spools, policy)
    checked = _apart("check", spools, policy).checked
    assert checked is not None, "it was asked for"
    return checked


def look_at_rows(spool: Spool, policy: DatasetPolicy) -> Looked:
    """``first_rows.look``. Raises as it does, and BadData where that takes more time or memory than is allowed."""
    if _bytes([spool]) <= HERE:
        return look(spool, policy)
    looked = _apart("look", [spool], policy).looked
    assert looked is not None, "it was asked for"
    return looked


def _bytes(spools: Sequence[Spool]) -> int:
    return sum(spool.path.stat().st_size - spool.start for spool in spools)


def _apart(work: Literal["check", "look"], spools: Sequence[Spool], policy: DatasetPolicy) -> _Answer:
    order: dict[str, Any] = _ORDER.dump_python(_Order(work=work, spools=tuple(spools), policy=policy), mode="json")
    seconds = _LIMITS.seconds_for(_bytes(spools))
    reply = run_limited(_MODULE, order, name=spools[0].name, limits=_LIMITS, seconds=seconds)
    answer = _ANSWER.validate_python(reply, strict=False)
    if answer.refused is not None:
        raise answer.refused.error
    return answer


def _answered(order: _Order) -> _Answer:
    try:
        if order.work == "look":
            return _Answer(looked=look(order.spools[0], order.policy))
        return _Answer(checked=check_uploads(order.spools, order.policy))
    except (BadData, BadRecipe) as error:
        return _Answer(refused=_Refused.of(error))
    except Exception as error:
        return _Answer(refused=_Refused.of(refusal(error, order.spools[0].name, order.limits)))


def main() -> None:
    order = _ORDER.validate_json(sys.stdin.buffer.read())
    if COMPILES:
        # What it reserves is no row's.
        import ft_assets.workers.datasets.forms.keys_kernel  # noqa: F401
    order.limits.apply(order.cpu_seconds)
    sys.stdout.buffer.write(_ANSWER.dump_json(_answered(order)))


if __name__ == "__main__":
    main()
