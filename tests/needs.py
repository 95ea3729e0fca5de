"""What tests need beside this process, by marker; one that needs nothing ends within ``LIMIT_S`` of processor time.

The limit is on processor time, that of ended child processes included, and never above the time that passed: on a
machine that does other things too, seconds on the clock say nothing of a test. What is over it runs once more, as the
first test to import torch or to compile a kernel pays for all others.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from ft_resources.environment import LLAMA_CPP, LLM_COMPRESSOR
from tests.k8s.programs import program
from tools.images import lacking

NEEDS = {
    "e2e": "whole workers or real servers, daemons and their databases",
    "server": "the API, or the console, that answers over HTTP",
    "subprocess": "processes of its own, whose start takes longer than the test",
    "training": "trainings or evaluations of a model by torch",
    "dagster": "a Dagster instance on disk, and runs of it",
    "statistics": "many draws or a large input, to show what holds on average or in every place",
    "cluster": "the cluster of tests/cluster, with pods as processes",
    "s3": "an S3 server",
    "images": "minutes in which images are built",
    "vllm": "a real vLLM",
    "browser": "a real browser",
    "realdata": "real public data",
}


def contained() -> bool:
    """Whether the sandbox for written programs works here."""
    from ft_assets.workers.suites.kinds.sandbox import Limits, SandboxUnavailable, run_program

    try:
        return run_program("pass", Limits(timeout_s=120.0)) == "passed"
    except SandboxUnavailable:
        return False


# What a machine may lack, and what to do there: tests with the marker are skipped, and the run's end counts them.
OPTIONAL: Mapping[str, tuple[Callable[[], object], str]] = {
    "browser": (lambda: _programs("chromium", "chromedriver"), "install chromium and chromedriver"),
    "gpu": (lambda: Path("/dev/nvidia0").exists(), "use a machine with an NVIDIA GPU"),
    "helm": (lambda: program("helm"), "python -m tools.helm .venv/helm"),
    "images": (lambda: not lacking(), "install buildah, and set FT_IMAGE_BASE to a base by its digest or debootstrap"),
    "jq": (lambda: _programs("jq"), "install jq"),
    "kubectl": (lambda: program("kubectl"), "python -m tools.helm .venv/helm"),
    "llama_cpp": (
        lambda: os.environ.get(LLAMA_CPP) or find_spec("xllamacpp"),
        f"install the extra gguf, or set {LLAMA_CPP} to the folder of llama.cpp's programs",
    ),
    "llm_compressor": (lambda: os.environ.get(LLM_COMPRESSOR), f"set {LLM_COMPRESSOR} to a Python with llm-compressor"),
    "prometheus": (lambda: _programs("prometheus", "promtool"), "install prometheus"),
    "realdata": (lambda: os.environ.get("FT_REAL_DATA"), "set FT_REAL_DATA to a folder of public data sets"),
    "sandbox": (contained, "use a machine that lets this user make namespaces"),
    "vllm": (lambda: os.environ.get("FT_VLLM_PYTHON"), "set FT_VLLM_PYTHON to a Python that has vLLM"),
}
LONG = (
    "draws over many seeds, a matrix of which `make test` has the corners, or a run of many minutes whose parts it has"
)
LIMIT_S = 2.0


def needs(item: pytest.Item) -> set[str]:
    """The test's markers among NEEDS."""
    return {marker.name for marker in item.iter_markers()} & NEEDS.keys()


def skip_absent(items: Iterable[pytest.Item]) -> None:
    """Skip the tests that need what this machine lacks."""
    there = cache(lambda name: bool(OPTIONAL[name][0]()))
    for item in items:
        for name in sorted(OPTIONAL.keys() & {marker.name for marker in item.iter_markers()}):
            if not there(name):
                item.add_marker(pytest.mark.skip(reason=f"{name}: {OPTIONAL[name][1]}"))


def skipped(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each reason why tests were skipped: how many, and what to do where it is a marker of OPTIONAL."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)  # type: ignore[index]
    lines = []
    for reason, count in reasons.most_common():
        name, _, how = reason.partition(": ")
        run = f"; then make test ARGS='-m {name}'" if how and name in OPTIONAL else ""
        lines.append(f"{count} skipped: {reason}{run}")
    return lines


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
    clock, processor = time.monotonic(), processor_s()
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    took = min(time.monotonic() - clock, processor_s() - processor)
    return reports, took - (SHARED.seconds - shared)


def _fail(reports: Sequence[pytest.TestReport], words: str) -> None:
    call = next(report for report in reports if report.when == "call")
    call.outcome, call.longrepr = "failed", words


def _programs(*names: str) -> bool:
    return all(map(shutil.which, names))


def processor_s() -> float:
    """Processor seconds of this process and its ended children so far."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Shared:
    """Processor seconds that fixtures of more than one test have taken so far."""

    seconds = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> object:
        began = processor_s()
        made = yield
        if fixturedef.scope != "function":
            self.seconds += processor_s() - began
        return made


SHARED = Shared()
