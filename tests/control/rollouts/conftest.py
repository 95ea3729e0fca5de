"""Lines with adapters, as promotions have them; a rollout with a judge of copied requests."""

from collections.abc import Iterator

import pytest

from tests.control.lines.conftest import judged_well, line, world  # noqa: F401
from tests.control.lines.promotable import Promotable
from tests.control.rollouts.judged_rollout import GOOD, KEY, Asked
from tests.workers.evals.preferences.judge_server import JudgeServer, judge_server, prefer


@pytest.fixture
def rolled(line: Promotable, monkeypatch: pytest.MonkeyPatch) -> Asked:  # noqa: F811
    monkeypatch.setenv(KEY, "the-key")
    return Asked(line)


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A fair judge, who likes help."""
    with judge_server(prefer(lambda answer: answer == GOOD)) as server:
        yield server
