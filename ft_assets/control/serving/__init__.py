"""Serving: which adapters servers of models should have, what makes them have these, what names mean, and whether
answers are what was evaluated."""
