"""Base models: pinned by content, mirrored into the store, and scored once."""
