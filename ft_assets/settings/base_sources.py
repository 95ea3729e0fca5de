"""What a base model is called where servers of it are configured."""

from collections.abc import Mapping


def source_of(params: Mapping[str, object]) -> str:
    """``hub:ORG/NAME@COMMIT`` or ``folder:sha256:DIGEST`` of a base model by what it was made of; empty for one with
    tokens of its own, which nobody has but this store."""
    lock = params.get("lock")
    if not isinstance(lock, Mapping) or params.get("new_tokens"):
        return ""
    return f"{lock['source']}@{lock['revision']}" if lock["kind"] == "hub" else str(lock["source"])
