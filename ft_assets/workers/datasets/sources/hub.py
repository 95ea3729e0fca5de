"""A revision of a public Hub dataset: new rows are a new commit.

It is read without the platform's token, by which a tenant could read private data of the platform or of others.
"""

from functools import partial
from pathlib import Path

from ft_assets.workers.datasets.intake.hub import HubSplit, OpenSplit, fetch_split, open_on_hub
from ft_assets.workers.datasets.sources.place import Fetched
from ft_resources.hub import Hub, HuggingFaceHub


class HubRevision:
    """A split, as ``hub:org/name@revision#split``."""

    def __init__(self, reference: str, *, hub: Hub | None = None, open_split: OpenSplit | None = None) -> None:
        self._split, self._hub = HubSplit.parse(reference), hub or HuggingFaceHub(kind="dataset", token=False)
        self._open: OpenSplit = open_split or partial(open_on_hub, token=False)

    def look(self) -> str:
        """The revision's commit."""
        return f"commit {self._hub.snapshot(self._split.repo, self._split.revision).commit}"

    def fetch(self, folder: Path, *, most_rows: int | None) -> Fetched:
        """The rows at the revision's commit, however the revision moves meanwhile."""
        seen = self.look()
        pinned = f"hub:{self._split.repo}@{seen.removeprefix('commit ')}#{self._split.split}"
        return Fetched(seen=seen, files=(fetch_split(pinned, folder, open_split=self._open),))
