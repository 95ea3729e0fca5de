"""Exports: what is made of an accepted adapter, and whether it may leave the platform."""
