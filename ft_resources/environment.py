"""Settings that come from environment variables."""

import os

from ft_resources.errors import UserError

DEFAULT_STORE = ".ft/store"


def default_store_url() -> str:
    """The store's URL: ``FT_STORE``, else a folder below the working directory."""
    return os.environ.get("FT_STORE", DEFAULT_STORE)


def whole_number(variable: str, default: int, *, at_least: int) -> int:
    """The integer in an environment variable. Raises UserError for anything else, and below ``at_least``."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < at_least:
        raise UserError(
            f"{text!r} is not a whole number of at least {at_least}", where=variable, remedy="Correct it, or unset it."
        )
    return int(text)
