"""The names of base models in the configuration of model servers."""

from collections.abc import Mapping


def source_of(params: Mapping[str, object]) -> str:
    """``hub:ORG/NAME@COMMIT`` or ``folder:sha256:DIGEST`` of a base model, by its source; empty for one with added
    tokens, which exists in this store only."""
    lock = params.get("lock")
    if not isinstance(lock, Mapping) or params.get("new_tokens"):
        return ""
    return f"{lock['source']}@{lock['revision']}" if lock["kind"] == "hub" else str(lock["source"])
