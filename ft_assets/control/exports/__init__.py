"""Exports: what is made of an accepted adapter, how far it is, and whether it may leave the platform."""
