"""Thin sensors over pure plans."""
