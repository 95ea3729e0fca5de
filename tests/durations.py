"""How long each test took, on the clock and of the processor: ``build/durations.json``, for ``tools.durations``.

A test's seconds are those of its setup, call and teardown, so a fixture that many tests share counts for the first.
Processor seconds are of the test's process and of its children that have ended.
"""

import json
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs, processor_s
from tools.durations import Duration, by_file, by_marker

_PROPERTY = "durations"


@dataclass(eq=False)
class Durations:
    """The pytest plugin: measures where tests run, and writes the file where they are reported.

    Args:
        target: the file to write.
    """

    target: Path
    found: dict[str, Duration] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._began, self._processor = time.monotonic(), processor_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "teardown":
            measured = (time.monotonic() - self._began, processor_s() - self._processor, *sorted(needs(item)))
            report.user_properties.append((_PROPERTY, measured))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, measured in report.user_properties if report.when == "teardown" else ():
            if name == _PROPERTY:
                seconds, processor, *markers = measured
                self.found[report.nodeid] = Duration(seconds=seconds, processor_s=processor, markers=tuple(markers))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.found:
            return
        self.target.parent.mkdir(exist_ok=True)
        written = {test: each.as_json() for test, each in sorted(self.found.items())}
        self.target.write_text(json.dumps(written, indent=0) + "\n", encoding="utf-8")
        terminalreporter.section("durations")
        for table in (by_file(self.found)[:10], by_marker(self.found)):
            for name, count, seconds, processor in table:
                terminalreporter.line(f"{seconds:8.1f} s {processor:8.1f} s of processor {count:6} tests  {name}")
