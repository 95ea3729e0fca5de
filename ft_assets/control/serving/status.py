"""The serving status for people; the process that follows the lines writes it to a local file."""

import os
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ft_resources.run_processes import gone

# Several looks: one may wait for a server that does not answer.
_FRESH_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LineServed:
    """An adapter in a stage of a line.

    Args:
        adapter: address.
        name: its name on servers.
        base: content digest.
        servers: those that say they serve it.
        trouble: why some or all servers of its base do not.
    """

    line: str
    stage: str
    adapter: str
    name: str
    base: str
    servers: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class ServerShown:
    """A server, and the names of adapters that it says it serves."""

    name: str
    base: str
    state: Literal["answers", "starts", "away"]
    models: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class ServingStatus:
    """What is served where.

    Args:
        at: when it was looked, UTC, ISO 8601; empty where nothing follows the lines.
        drift: in words, what has differed from the promotion log for longer than a minute.
        trouble: a problem of the whole.
    """

    at: str = ""
    process: str = ""
    lines: tuple[LineServed, ...] = ()
    servers: tuple[ServerShown, ...] = ()
    drift: tuple[str, ...] = ()
    trouble: str = ""

    def of_tenant(self, tenant: str) -> "ServingStatus":
        """The part that a tenant may see: without other tenants' and the operator's."""
        begin = f"{tenant}."
        return replace(
            self,
            process="",
            lines=tuple(each for each in self.lines if each.line.startswith(begin)),
            servers=tuple(
                replace(each, models=tuple(name for name in each.models if name.startswith(begin)), trouble="")
                for each in self.servers
            ),
            drift=tuple(each for each in self.drift if each.startswith(begin)),
        )


_STATUS = TypeAdapter(ServingStatus)


def status_file() -> Path:
    """In the folder ``FT_STATE``."""
    return Path(os.environ.get("FT_STATE", ".ft")).resolve() / "serving" / "status.json"


def write_status(status: ServingStatus, file: Path) -> None:
    """Replace what is in the file. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        partial.write_bytes(_STATUS.dump_json(status))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def read_status(file: Path) -> ServingStatus:
    """The status in the file; empty if its writer is gone or hangs."""
    try:
        found = _STATUS.validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return ServingStatus()
    age = (datetime.now(UTC) - datetime.fromisoformat(found.at)).total_seconds() if found.at else _FRESH_S
    return ServingStatus() if gone(found.process) or age >= _FRESH_S else found
