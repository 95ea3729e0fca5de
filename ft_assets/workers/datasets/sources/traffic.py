"""Answers that users liked: rows of a line's kept conversations."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ft_assets.records.conversations import Conversation, read_conversations
from ft_assets.records.outcomes import read_outcomes
from ft_assets.workers.datasets.sources.place import Fetched
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.store import Store

_EVER = "0000"


class LikedAnswers:
    """Conversations of ``line`` whose answer got a thumb up.

    Args:
        minimum: the fewest new thumbs up since the last pull that count as new rows.
        last: what ``look`` said at the last pull; empty before the first.
    """

    def __init__(self, store: Store, line: str, *, minimum: int, last: str) -> None:
        self._store, self._line, self._minimum, self._last = store, line, minimum, last

    def look(self) -> str:
        """The time of the newest thumb, or ``last`` while new ones are too few."""
        since = self._last.removeprefix(_UNTIL) if self._last.startswith(_UNTIL) else _EVER
        new = [at for at, _ in self._thumbs() if at > since]
        return f"{_UNTIL}{max(new)}" if len(new) >= self._minimum else self._last

    def fetch(self, folder: Path, *, most_rows: int | None) -> Fetched:
        """All liked conversations that are kept, oldest first."""
        thumbs = {request: at for at, request in self._thumbs()}
        file = folder / "liked-answers.jsonl"
        rows, newest = 0, ""
        with open(file, "wb") as out:
            for each in self._kept():
                if each.request not in thumbs or (most_rows is not None and rows > most_rows):
                    continue
                row = {"messages": [*each.messages, {"role": "assistant", "content": each.answer}]}
                out.write(canonical_json(row) + b"\n")
                rows, newest = rows + 1, max(newest, thumbs[each.request])
        if not rows:
            raise UserError(
                "none of the kept answers was liked",
                where=f"line {self._line}",
                remedy="Let the line keep traffic (lines, in tenants.yaml), ask with store: true, and send thumbs to "
                "/v1/ft/feedback.",
            )
        return Fetched(seen=f"{_UNTIL}{newest}", files=(file,))

    def _thumbs(self) -> list[tuple[str, str]]:
        """(time, request) of every thumb up for a kept conversation."""
        kept = {each.request for each in self._kept()}
        found = read_outcomes(self._store, self._line, _EVER, _now())
        return [
            (each.at, each.request)
            for each in found
            if each.kind == "thumbs" and each.value == 1.0 and each.request in kept
        ]

    def _kept(self) -> Iterator[Conversation]:
        return read_conversations(self._store, self._line, _EVER, _now())


_UNTIL = "liked until "


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
