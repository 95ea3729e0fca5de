"""Outcomes of answers: latency, refusals, format, and users' feedback."""

import logging
import re
from datetime import UTC, datetime
from typing import Literal

from ft_assets.records.outcomes import FAILED_S, Outcome
from ft_assets.records.outcomes import OutcomeLog as OutcomeLog
from ft_assets.settings.answer_format import AnswerFormat as AnswerFormat
from ft_assets.settings.rollout_settings import Kind
from ft_assets.workers.evals.refusals import outcome_of
from ft_assets.workers.serving.answer_grader import is_valid
from ft_resources.errors import NotFound, UserError
from ft_resources.serving.fleet import ServedModel

_LOG = logging.getLogger(__name__)
Thumb = Literal["up", "down"]
_ID = re.compile(r"(?:chatcmpl|cmpl)-(?P<digest>[0-9a-f]{16})-[0-9a-f]{32}")


def note_answer(log: OutcomeLog, model: ServedModel, *, request: str, text: str, seconds: float) -> None:
    """Record an answer's latency, ``seconds`` until it was complete, and whether ``text`` is a refusal, by its
    opening."""
    _note(log, model.name, request, "latency", seconds)
    _note(log, model.name, request, "refusal", float(outcome_of(text) == "refused"))


def note_format(log: OutcomeLog, model: ServedModel, wanted: AnswerFormat, *, request: str, text: str) -> bool | None:
    """Record whether an answer has its line's format, without its text. An answer that cannot be graded leaves no
    outcome. Returns the result of ``grade``."""
    valid = grade(model, wanted, text)
    if valid is not None:
        _note(log, model.name, request, "format", float(valid))
    return valid


def grade(model: ServedModel, wanted: AnswerFormat, text: str) -> bool | None:
    """Whether an answer of ``model`` has the format of its line; None, and a warning, for one that cannot be graded."""
    try:
        return is_valid(wanted, text)
    except UserError as error:
        _LOG.warning("an answer of %s was not graded: %s", model.name, error)
        return None


def note_failure(log: OutcomeLog, model: ServedModel, *, request: str) -> None:
    """Record a failed answer: it counts as one that took a day, beyond every limit."""
    _note(log, model.name, request, "latency", FAILED_S)


def note_feedback(
    log: OutcomeLog, line: str, *, request: str, thumb: Thumb | None = None, score: float | None = None
) -> str:
    """Keep what a user (``thumb``) or a judge (``score``, from 0 to 1) says of the answer with the id ``request``, and
    return what the adapter that gave it is called.

    ``line`` was asked, and is the caller's own. Raises NotFound for what is no id of an answer.
    """
    found = _ID.fullmatch(request)
    if found is None:
        raise NotFound(f"there is no answer {request!r}", where="id", remedy="Send the id of an answer as it came.")
    model = f"{line}@{found['digest']}"
    if thumb is not None:
        _note(log, model, request, "thumbs", float(thumb == "up"))
    if score is not None:
        _note(log, model, request, "judge", score)
    return model


def require_line(name: str) -> str:
    """``name`` where it is a line's. Raises UserError for the name of one adapter: who asks for one by its name is no
    user of the line, and no part of its traffic."""
    if "@" in name or ":" in name:
        raise UserError(
            f"{name!r} is a single adapter, and feedback is recorded for lines only",
            where="model",
            remedy="Use the name of the line: tenant.dataset.recipe.",
        )
    return name


def _note(log: OutcomeLog, model: str, request: str, kind: Kind, value: float) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    log.add(Outcome(model=model, request=request, kind=kind, value=value, at=at))
