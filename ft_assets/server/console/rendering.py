"""Templates to pages. Everything in them is escaped."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from ft_assets.server.console.browser_words import in_browser
from ft_assets.server.console.verdicts import gate_name

FOLDER = Path(__file__).parent
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def page(request: Request, template: str, *, code: int = 200, **values: Any) -> HTMLResponse:
    """The page of ``template``; ``person`` is who is signed in, None for nobody."""
    person = getattr(request.state, "person", None)
    text = _ENVIRONMENT.get_template(template).render(person=person, path=request.url.path, **values)
    return HTMLResponse(text, code)


def when(at: float | str | None) -> str:
    """A time for people, in UTC; "" for None. Seconds since the epoch, or ISO 8601."""
    if at is None or at == "":
        return ""
    moment = datetime.fromisoformat(at).astimezone(UTC) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def clock(at: float) -> str:
    """The time of day, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def size(count: float) -> str:
    """A number of bytes: ``1.5 MiB``."""
    place = 0
    while count >= 1024 and place < len(_SIZES) - 1:
        count, place = count / 1024, place + 1
    return f"{count:.0f} {_SIZES[place]}" if place == 0 else f"{count:.1f} {_SIZES[place]}"


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "when": when,
        "clock": clock,
        "size": size,
        "duration": duration,
        "gate": gate_name,
        "said": in_browser,
    }
    return made


_ENVIRONMENT = _environment()
