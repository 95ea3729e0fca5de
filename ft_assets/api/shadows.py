"""Copied requests: facts about the answer that a user got, and about the candidate's, which was sent to nobody."""

from datetime import UTC, datetime

from ft_assets.records.outcomes import FAILED_S
from ft_assets.records.shadows import CONVERSATIONS, ShadowPair
from ft_assets.records.shadows import AnswerSeen as AnswerSeen
from ft_assets.records.shadows import ShadowLog as ShadowLog
from ft_assets.workers.evals.refusals import outcome_of
from ft_resources.serving.fleet import ServedModel

SHADOW_CONVERSATIONS = CONVERSATIONS
"""Where the texts of copies' answers are kept."""
FAILED = AnswerSeen(seconds=FAILED_S, refused=None, valid=None, characters=0, tokens=0)
"""The record of an answer that failed or broke off."""


def seen_of(text: str, *, seconds: float, tokens: int, valid: bool | None) -> AnswerSeen:
    """What is kept of an answer that was complete after ``seconds``; ``valid`` says whether it has its line's format,
    None where none is graded."""
    refused = outcome_of(text) == "refused"
    return AnswerSeen(seconds=seconds, refused=refused, valid=valid, characters=len(text), tokens=tokens)


def note_pair(
    log: ShadowLog,
    candidate: ServedModel,
    incumbent: ServedModel,
    *,
    request: str,
    candidate_answer: AnswerSeen,
    incumbent_answer: AnswerSeen,
) -> None:
    """Record both answers to ``request``."""
    log.add(
        ShadowPair(
            candidate=candidate.name,
            incumbent=incumbent.name,
            request=request,
            candidate_answer=candidate_answer,
            incumbent_answer=incumbent_answer,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
    )
