"""Nothing that a text of others contains reaches the terminal as a command, whoever writes it."""

import codecs
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from ft_resources.shown import COMMAND, ShownStream, shown


class _Indented(logging.Formatter):
    """A message of several lines looks like one: a text in it cannot begin another."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record)).replace("\n", "\n    ")


def keep_commands_out_of_rich() -> None:
    """rich takes five of them out of every text that it renders, and lets the others through; it has no setting for
    that. What it commands itself is no text."""
    from rich import control

    control._CONTROL_STRIP_TRANSLATE.update(dict.fromkeys(map(ord, COMMAND.findall("".join(map(chr, range(1 << 16)))))))


def keep_commands_out() -> None:
    """From here on: of what this process prints, logs and renders, and of how it ends."""
    keep_commands_out_of_rich()
    sys.stdout, sys.stderr = ShownStream.over(sys.stdout), ShownStream.over(sys.stderr)
    if logging.lastResort is not None:
        # Nobody configures logging here, so it is the one that prints.
        logging.lastResort.setFormatter(_Indented())


def relayed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start ``command``, of which the terminal gets the output as it gets this process's; and the thread that ends with
    its output."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    copying = threading.Thread(target=_relay, args=(process.stdout,), name="output", daemon=True)
    copying.start()
    return process, copying


def _relay(output: IO[bytes]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := os.read(output.fileno(), 1 << 16):
        sys.stderr.write(decoder.decode(data))
        sys.stderr.flush()
