"""Serving: which adapters servers of models should have, and what makes them have these."""
