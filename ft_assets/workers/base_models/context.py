"""How many tokens a base reads at once."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from ft_assets.settings.catalogue.composites import parsed, text_settings

_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
# More says nothing, and cannot be scaled.
_MOST = 1 << 40


def context_length(config: bytes | None) -> int | None:
    """Most tokens of a sequence by a base's ``config.json``; None if there is no such file or it does not say.

    Scaled rotary positions reach further than the length that the model was first trained on: by their factor.
    """
    values = text_settings(parsed(config))
    length = next((values[name] for name in _LENGTHS if _is_length(values.get(name))), None)
    return None if length is None else max(length, _scaled(values, length))


def _scaled(values: Mapping[str, Any], length: int) -> int:
    rope = values.get("rope_parameters") or values.get("rope_scaling")
    factor = rope.get("factor") if isinstance(rope, Mapping) else None
    if not isinstance(factor, int | float) or not 1 <= factor <= 1000:
        return length
    assert isinstance(rope, Mapping)
    original = rope.get("original_max_position_embeddings")
    return round(factor * (original if _is_length(original) else length))


def _is_length(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST
