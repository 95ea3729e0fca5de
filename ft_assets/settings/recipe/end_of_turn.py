"""Templates that leave the last answer open, and the control tokens that the recipe says end it.

GLM's answers end where the next turn's ``<|user|>`` or ``<|observation|>`` begins; Qwen1.5 writes ``<|im_end|>`` only
before another turn. A model that learned a last answer without an end would never stop. ``packing.end_of_turn`` becomes
a part of the Jinja text itself, so that training, evaluation and the exported adapter have one template.
"""

import json
import re
from collections.abc import Sequence

_BASES_OWN = "{# the base's own template #}"
_LAST = 'if not add_generation_prompt and messages and messages[-1]["role"] == "assistant" else ""'
_CLOSING = re.compile(rf"\{{\{{ (\[[^\n]*\])\[0\] {re.escape(_LAST)} \}}\}}\Z")


def with_end_of_turn(source: str | None, ends: Sequence[str]) -> str | None:
    """The Jinja text ``source`` (None: the base's own), extended to write the first of ``ends`` after a last answer."""
    if not ends:
        return source
    # Jinja drops one newline at the end of a template.
    text = _BASES_OWN if source is None else source.removesuffix("\n")
    return f"{text}{{{{ {json.dumps(list(ends), ensure_ascii=False)}[0] {_LAST} }}}}"


def without_end_of_turn(source: str | None) -> tuple[str | None, tuple[str, ...]]:
    """``source`` and ``ends`` of a text that ``with_end_of_turn`` made; any other text is returned with no ends."""
    found = _CLOSING.search(source) if source is not None else None
    if source is None or found is None:
        return source, ()
    text = source[: found.start()]
    return None if text == _BASES_OWN else text, tuple(json.loads(found[1]))
