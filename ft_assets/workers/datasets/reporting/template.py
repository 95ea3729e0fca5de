"""The page's template and its filters."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from ft_assets.workers.datasets.reporting.differences import cut
from ft_assets.workers.datasets.reporting.report import Weights

_CODE = re.compile(r"`([^`]+)`")


@cache
def template() -> Template:
    """The page; every value in it is escaped, except values that are already Markup."""
    environment = Environment(
        loader=PackageLoader("ft_assets.workers.datasets.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=lambda value: f"{value:,}",
        percent=lambda share: f"{share:.1%}".replace("%", " %"),
        size=_size,
        short=_short,
        cut=cut,
        code=_code,
        range=_range,
        capitalize_first=lambda text: str(text)[:1].upper() + str(text)[1:],
    )
    return environment.get_template("page.html.jinja")


def _size(count: int) -> str:
    """Bytes for people: ``12.3 KB``, ``4.0 MB``."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def _short(count: int) -> str:
    """A number that fits under a bar: ``950``, ``1.2k``, ``34k``, ``5M``."""
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= scale:
            value = count / scale
            return f"{value:.1f}".removesuffix(".0") + unit if value < 10 else f"{value:.0f}{unit}"
    return str(count)


def _range(weights: Weights | None) -> str:
    """``0.5 to 2``; a dash where there are no rows."""
    return f"{weights.least:g} to {weights.most:g}" if weights else "–"


def _code(text: str) -> Markup:
    """``text`` with its parts between backticks as code."""
    pieces = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )
