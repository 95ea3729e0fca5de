"""Suggestions as Dagster shows them."""

import dagster as dg

from ft_assets.control.rejections.record import RejectionRecord


def shown_suggestions(record: RejectionRecord | None) -> dict[str, dg.MetadataValue]:
    """What to try after a rejection, as a list; empty if the candidate was not rejected."""
    if record is None or not record.suggestions:
        return {}
    return {"suggestions": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in record.suggestions))}
