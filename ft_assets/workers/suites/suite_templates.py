"""The sandbox for the Jinja texts of suites: lm-eval's environment with limits on all its work."""

from functools import lru_cache
from typing import Any

import jinja2

from ft_assets.workers.suites.patterns import replace
from ft_assets.workers.templates.sandbox import LimitedEnvironment

# Loop iterations of one text of one item: some tenths of a second.
_STEPS = 100_000


class SuiteEnvironment(LimitedEnvironment):
    """Compiles ``doc_to_text`` and similar texts, each once: lm-eval asks for it again with every item."""

    def __init__(self) -> None:
        super().__init__(
            steps=_STEPS,
            # lm-eval's own filter never returns if a pattern does not.
            own={"regex_replace": replace},
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        self.from_string: Any = lru_cache(maxsize=64)(super().from_string)
