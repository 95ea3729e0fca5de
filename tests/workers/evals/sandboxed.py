"""The real sandbox, with small limits, for tests of what runs in it."""

import pytest

from ft_assets.workers.suites.kinds import sandbox
from ft_assets.workers.suites.kinds.sandbox import Limits, run_program

# Of programs that end by themselves, however busy the machine is.
PATIENT = Limits(timeout_s=120.0, memory_mb=256, files_mb=4, processes=4)
# Of programs that do not.
QUICK = PATIENT.model_copy(update={"timeout_s": 3.0})


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_RUN_CODE", "sandbox")
    sandbox._probe.cache_clear()


def holds(program: str) -> bool:
    """Whether the program finds that what it tries fails: it runs to its end and every assertion holds."""
    return run_program(program, PATIENT) == "passed"
