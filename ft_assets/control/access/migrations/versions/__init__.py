"""Versions of the access database's schema."""
