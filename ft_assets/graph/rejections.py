"""Suggestions as Dagster shows them."""

import dagster as dg

from ft_assets.rejections.record import RejectionRecord


def shown_suggestions(record: RejectionRecord | None) -> dict[str, dg.MetadataValue]:
    """What to try instead of a rejected candidate, as a list; nothing where it was not rejected."""
    if record is None or not record.suggestions:
        return {}
    return {"suggestions": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in record.suggestions))}
