"""What curation decides about each row, and the findings that report it."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.forms.content_keys import row_ids
from ft_assets.workers.datasets.prepared import PreparedRows
from ft_assets.workers.datasets.reporting.report import (
    LISTED_NOTES,
    Action,
    Exhibit,
    Finding,
    Note,
    Place,
    Step,
    StepReport,
)
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.screening.personal import screen

SHOWN = 3
ACTIONS: dict[str, Action] = {"remove": "removed", "escalate": "held", "warn": "warned", "detect": "warned"}
"""What a policy's action is in the report."""
_TEXT_CHARACTERS = 4000


class Decisions:
    """Which rows are still kept, and the report's steps in order.

    Rows are shown without what ``personal`` (with the name model ``names``) searches for, even if it stays in the data:
    more people see the page.
    """

    def __init__(self, rows: PreparedRows, personal: PersonalDataSettings, names: NameModel | None = None) -> None:
        self.rows = rows
        self._names = names
        self._shown = personal.model_copy(update={"action": "off" if personal.action == "off" else "scrub"})
        self.kept = np.ones(len(rows), np.bool_)
        self.steps: list[StepReport] = []
        self.exhibits: list[Exhibit] = []
        self.warnings: list[str] = []

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
        details: Callable[[int], str] = lambda _: "",
        beside: Callable[[int], tuple[Place, str] | None] = lambda _: None,
    ) -> Finding:
        """The finding for the rows at ascending ``positions``; the action ``removed`` drops them from now on.

        ``others`` are the positions of the rows they resemble (-1 for none), ``similarities`` how much. ``details``
        says more about the row at an index of ``positions``. The page shows the texts of the first ``shown`` rows
        beside those of the rows they resemble, or ``beside`` a place and a text that is not a row's.
        """
        if action == "removed":
            self.kept[positions] = False
        notes = []
        for index in range(min(len(positions), LISTED_NOTES)):
            notes.append(
                Note(
                    place=self.rows.place(int(positions[index])),
                    detail=details(index),
                    other=self.rows.place(int(others[index])) if others is not None and others[index] >= 0 else None,
                    similarity=float(similarities[index]) if similarities is not None else None,
                )
            )
        for index in range(min(len(positions), shown)):
            other = int(others[index]) if others is not None else -1
            given = (self.rows.place(other), self._text(other)) if other >= 0 else beside(index)
            self._exhibit(step, reason, int(positions[index]), given)
        return Finding(reason=reason, action=action, count=len(positions), subject=subject, notes=notes)

    def show(self, step: Step, reason: str, positions: np.ndarray) -> None:
        """Show the first of the rows at ``positions`` on the page."""
        for position in positions[:SHOWN].tolist():
            self._exhibit(step, reason, position, None)

    def scrubbed(self, texts: pa.StringArray) -> pa.StringArray:
        """``texts`` with placeholders for what the policy searches for."""
        return screen(texts, self._shown, self._names).texts

    def _exhibit(self, step: Step, reason: str, position: int, beside: tuple[Place, str] | None) -> None:
        place, text = beside or (None, "")
        self.exhibits.append(
            Exhibit(
                step=step,
                reason=reason,
                place=self.rows.place(position),
                text=self._text(position),
                row_id=row_ids(self.rows.content_at(np.array([position])))[0],
                other_place=place,
                other_text=text[:_TEXT_CHARACTERS],
            )
        )

    def _text(self, position: int) -> str:
        text: str = self.scrubbed(self.rows.texts_at(np.array([position])))[0].as_py()
        return text[:_TEXT_CHARACTERS]
