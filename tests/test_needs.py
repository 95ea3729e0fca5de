"""The rule of ``tests/needs.py``, on tests made here."""

import pytest

pytestmark = pytest.mark.subprocess

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.conftest import (
    pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_runtest_protocol
)
"""
TESTS = """
import pytest, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@pytest.fixture(scope="module")
def world():
    burn(0.15)

FIRST = []

def test_quick(): pass
def test_waits_for_others(): time.sleep(0.15)
def test_shares(world): pass
def test_pays_for_an_import():
    if not FIRST:
        FIRST.append(burn(0.15))
def test_slow(): burn(0.15)
@pytest.mark.training
def test_slow_and_says_so(): burn(0.15)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setattr("tests.needs.LIMIT_S", 0.1)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_only_a_test_that_is_slow_twice_and_says_no_need_fails(run: pytest.Pytester) -> None:
    found = run.runpytest_inprocess("-p", "no:xdist", "--fast")
    found.assert_outcomes(passed=4, failed=1, deselected=1)
    found.stdout.fnmatch_lines(["*test_slow*", "*say by a marker what it needs*"])


def test_fast_leaves_out_whoever_says_a_need(run: pytest.Pytester) -> None:
    found = run.runpytest_inprocess("--fast", "--collect-only", "-q")
    assert "test_slow_and_says_so" not in found.stdout.str()
    assert "test_slow" in found.stdout.str()
