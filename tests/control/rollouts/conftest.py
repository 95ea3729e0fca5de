"""A line whose first adapter is in production, and a second that is the candidate of rollouts."""

from collections.abc import Iterator

import pytest

from tests.control.lines.promotable import Promotable
from tests.control.rollouts.made import GOOD, KEY, Asked, Rolled
from tests.workers.evals.preferences.judge_server import JudgeServer, judge_server, prefer


@pytest.fixture
def rolled(line: Promotable) -> Rolled:
    return Rolled(line)


@pytest.fixture
def asked(line: Promotable, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Its rollouts copy requests, which a judge compares."""
    monkeypatch.setenv(KEY, "the-key")
    return Asked(line)


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A fair judge, who likes help."""
    with judge_server(prefer(lambda answer: answer == GOOD)) as server:
        yield server
