"""What curation decides about each row, and the findings that report it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ft_assets.workers.datasets.prepared import PreparedRows
from ft_assets.workers.datasets.reporting.report import LISTED_NOTES, Action, Exhibit, Finding, Note, Step, StepReport

SHOWN = 3
_TEXT_CHARACTERS = 4000


class Decisions:
    """Which rows are still kept, and the report's steps in order."""

    def __init__(self, rows: PreparedRows) -> None:
        self.rows = rows
        self.kept = np.ones(len(rows), np.bool_)
        self.steps: list[StepReport] = []
        self.exhibits: list[Exhibit] = []

    def report(self, step: Step, findings: Sequence[Finding], rows_in: int) -> None:
        """End ``step``, which received ``rows_in`` rows; steps that found nothing are reported, too."""
        self.steps.append(
            StepReport(
                step=step, rows_in=rows_in, rows_out=self.count, findings=[each for each in findings if each.count]
            )
        )

    @property
    def count(self) -> int:
        """The number of rows still kept."""
        return int(np.count_nonzero(self.kept))

    def find(
        self,
        step: Step,
        reason: str,
        action: Action,
        positions: np.ndarray,
        *,
        subject: str = "",
        others: np.ndarray | None = None,
        similarities: np.ndarray | None = None,
        shown: int = SHOWN,
    ) -> Finding:
        """The finding for the rows at ascending ``positions``; the action ``removed`` drops them from now on.

        ``others`` are the positions of the rows they resemble, ``similarities`` how much. The page shows the texts of
        the first ``shown`` rows.
        """
        if action == "removed":
            self.kept[positions] = False
        notes = []
        for index in range(min(len(positions), LISTED_NOTES)):
            notes.append(
                Note(
                    place=self.rows.place(int(positions[index])),
                    other=self.rows.place(int(others[index])) if others is not None else None,
                    similarity=float(similarities[index]) if similarities is not None else None,
                )
            )
        for index in range(min(len(positions), shown)):
            self._exhibit(step, reason, int(positions[index]), int(others[index]) if others is not None else None)
        return Finding(reason=reason, action=action, count=len(positions), subject=subject, notes=notes)

    def show(self, step: Step, reason: str, positions: np.ndarray) -> None:
        """Show the first of the rows at ``positions`` on the page."""
        for position in positions[:SHOWN].tolist():
            self._exhibit(step, reason, position, None)

    def _exhibit(self, step: Step, reason: str, position: int, other: int | None) -> None:
        more: dict[str, Any] = {}
        if other is not None:
            more = {"other_place": self.rows.place(other), "other_text": self._text(other)}
        self.exhibits.append(
            Exhibit(step=step, reason=reason, place=self.rows.place(position), text=self._text(position), **more)
        )

    def _text(self, position: int) -> str:
        text: str = self.rows.texts_at(np.array([position]))[0].as_py()
        return text[:_TEXT_CHARACTERS]
