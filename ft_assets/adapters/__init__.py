"""Adapters: export behind the gates, and lineage."""
