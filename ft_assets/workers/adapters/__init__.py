"""Adapters: export of a gated checkpoint, its model card, and its lineage."""
