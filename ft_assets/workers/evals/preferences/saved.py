"""Judgements saved as they arrive, so that an interrupted evaluation does not pay for them twice.

They are below an attempt's ``saves/``, where later attempts at the same report find them, and which is removed once the
report exists.
"""

from typing import Any

from ft_assets.workers.evals.preferences.judge import Judgement
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact
from ft_resources.work import attempt_path
from ft_resources.worker_context import WorkContext


class SavedJudgements:
    """Judgements by ``judge`` (JSON that identifies the model) in this attempt and earlier ones.

    Only replies are kept: failures are asked again.
    """

    def __init__(self, context: WorkContext, judge: dict[str, Any]) -> None:
        self._store, self._judge = context.store, judge
        self._own = self._folder(context, context.spec.attempt)
        attempts = [*context.spec.previous, context.spec.attempt]
        self._known = {
            entry.path.rsplit("/", 1)[-1]: entry.path
            for attempt in attempts
            for entry in self._store.entries(self._folder(context, attempt))
        }

    def find(self, message: str) -> Judgement | None:
        """The reply to ``message``, None if it is unknown or unreadable."""
        path = self._known.get(self._name(message))
        if path is None:
            return None
        try:
            text = (self._store.find_json(path) or {}).get("text")
        except (CorruptArtifact, AttributeError):
            return None
        return Judgement(text=text) if isinstance(text, str) else None

    def keep(self, message: str, judgement: Judgement) -> None:
        if not judgement.problem:
            self._store.create_json(f"{self._own}/{self._name(message)}", {"text": judgement.text})

    def _name(self, message: str) -> str:
        return f"{digest({'judge': self._judge, 'message': message})}.json"

    @staticmethod
    def _folder(context: WorkContext, attempt: int) -> str:
        return f"{attempt_path(context.spec.address, attempt)}/saves/judge"
