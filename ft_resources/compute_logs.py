"""Dagster's log of what steps print, kept on this machine; a Ctrl-C in a terminal does not disturb it."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ft_resources.dagster_private import CapturedLogContext, ConfigurableClassData, LocalComputeLogManager


class TerminalComputeLogManager(LocalComputeLogManager):
    """``LocalComputeLogManager`` whose helper processes ignore a Ctrl-C.

    Each step has a ``tail`` that mirrors its output, and a watcher of that in Python. A terminal sends SIGINT to all
    of them, and the watchers ended in tracebacks. Dagster itself ends both with the step.
    """

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "TerminalComputeLogManager":
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        with ExitStack() as stack:
            # Children inherit the blocked signals. In this process a signal is delivered as soon as it is unblocked.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                context = stack.enter_context(super().capture_logs(log_key))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield context
