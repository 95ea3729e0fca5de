"""What tests need beside this process, by marker; one that needs nothing ends within ``LIMIT_S`` of processor time.

The limit is on processor time, that of ended child processes included, and never above the time that passed: on a
machine that does other things too, seconds on the clock say nothing of a test. What is over it runs once more, as the
first test to import torch or to compile a kernel pays for all others.
"""

import os
import time
from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol

NEEDS = {
    "e2e": "whole workers or real servers, daemons and their databases",
    "subprocess": "processes of its own, whose start takes longer than the test",
    "training": "trainings or evaluations of a model by torch",
    "dagster": "a Dagster instance on disk, and runs of it",
    "statistics": "many draws or a large input, to show what holds on average or in every place",
    "cluster": "the cluster of tests/cluster, with pods as processes",
    "s3": "an S3 server",
    "images": "buildah, and FT_IMAGE_BASE, a base by its digest or debootstrap; skipped without it",
    "vllm": "FT_VLLM_PYTHON, a Python that has vLLM; skipped without it",
    "browser": "chromium, chromedriver and selenium",
    "realdata": "FT_REAL_DATA, a folder of real public data; skipped without it",
}
# Left out of `make test`.
LONG = {"long": "draws over many seeds, or a matrix that shows no more than its corners: only in `make test-long`"}
LIMIT_S = 2.0


def needs(item: pytest.Item) -> set[str]:
    """The test's markers among NEEDS."""
    return {marker.name for marker in item.iter_markers()} & NEEDS.keys()


def limited(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test that says no need, and fail it where it takes more than LIMIT_S twice; the hook's answer."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, took = _timed(item, nextitem)
    if took > LIMIT_S and all(report.passed for report in reports):
        item._initrequest()  # type: ignore[attr-defined]
        reports, took = _timed(item, nextitem)
        if took > LIMIT_S:
            _fail(reports, f"it took {took:.1f} s of processor time; say by a marker what it needs, or make it faster")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _timed(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    """Its reports, and the seconds that it took, without what it set up for other tests too."""
    shared = SHARED.seconds
    clock, processor = time.monotonic(), _processor_s()
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    took = min(time.monotonic() - clock, _processor_s() - processor)
    return reports, took - (SHARED.seconds - shared)


def _fail(reports: Sequence[pytest.TestReport], words: str) -> None:
    call = next(report for report in reports if report.when == "call")
    call.outcome, call.longrepr = "failed", words


def _processor_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Shared:
    """Processor seconds that fixtures of more than one test have taken so far."""

    seconds = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> object:
        began = _processor_s()
        made = yield
        if fixturedef.scope != "function":
            self.seconds += _processor_s() - began
        return made


SHARED = Shared()
