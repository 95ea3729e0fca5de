"""Switches of the chat template in a row: every row is rendered alike, so what they ask for would not be learned."""

from collections.abc import Mapping
from typing import Any

from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem

OF_A_REQUEST = ("chat_template_kwargs", "enable_thinking")
SWITCHES = (*OF_A_REQUEST, "chat_template", "reasoning_effort", "builtin_tools")
"""What rows call them: TRL's column, and the variables that choose how templates render."""


def refuse_switches(request: Mapping[str, Any], where: str) -> None:
    """Raise RowProblem for a request that switches the template. Others of its parameters are not the template's."""
    for name in OF_A_REQUEST:
        if request.get(name) not in (None, "", {}):
            problem = "chat template options of a row are not supported, as all rows are rendered alike: remove them"
            raise RowProblem(Reason.WRONG_TYPE, f"{where}.{name}", problem)
