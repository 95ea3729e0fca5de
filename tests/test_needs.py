"""The rule of ``tests/needs.py``, on tests made here."""

import pytest

pytestmark = pytest.mark.subprocess

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.conftest import (
    pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_runtest_protocol, pytest_terminal_summary
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
@pytest.mark.long
def test_over_many_seeds(): pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setattr("tests.needs.LIMIT_S", 0.1)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_only_a_test_that_is_slow_twice_and_says_no_need_fails(run: pytest.Pytester) -> None:
    found = run.runpytest_inprocess("-p", "no:xdist", "--fast")
    found.assert_outcomes(passed=4, failed=1, deselected=2)
    found.stdout.fnmatch_lines(["*test_slow*", "*say by a marker what it needs*"])


def test_fast_leaves_out_whoever_says_a_need(run: pytest.Pytester) -> None:
    found = run.runpytest_inprocess("--fast", "--collect-only", "-q")
    assert "test_slow_and_says_so" not in found.stdout.str()
    assert "test_slow" in found.stdout.str()


def test_many_seeds_are_for_test_long_alone(run: pytest.Pytester) -> None:
    for options, found in (((), False), (("--long",), True)):
        shown = run.runpytest_inprocess("--collect-only", "-q", *options).stdout.str()
        assert ("test_over_many_seeds" in shown) is found
        assert "test_slow_and_says_so" in shown


def test_what_a_machine_lacks_is_counted_at_the_end_with_what_to_do(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.makepyfile("import pytest\npytestmark = pytest.mark.vllm\ndef test_one(): pass\ndef test_other(): pass\n")
    monkeypatch.setenv("FT_VLLM_PYTHON", "/opt/vllm/bin/python")
    run.runpytest_inprocess().assert_outcomes(passed=2)
    monkeypatch.delenv("FT_VLLM_PYTHON")
    found = run.runpytest_inprocess()
    found.assert_outcomes(skipped=2)
    found.stdout.fnmatch_lines(["2 skipped: vllm: set FT_VLLM_PYTHON to a Python that has vLLM; then make test *vllm*"])
