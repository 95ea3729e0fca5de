"""A store that notes what is fetched from it."""

import uuid
from collections import Counter
from pathlib import Path

import pytest

from ft_resources.store import Store
from tests.s3_server import use_bucket


class CountingStore(Store):
    """``fetched`` counts files of artifacts that writer ``w1`` published, by their name in the artifact."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.fetched: Counter[str] = Counter()

    @classmethod
    def in_new_bucket(cls, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> "CountingStore":
        return cls(use_bucket(monkeypatch, endpoint, f"test-{uuid.uuid4().hex[:8]}"))

    def download(self, path: str, target: Path) -> None:
        self.fetched[path.split("/w1/")[1]] += 1
        super().download(path, target)
