"""Deletion: tombstones with a grace period, what may be erased afterwards, and what prevents it."""
