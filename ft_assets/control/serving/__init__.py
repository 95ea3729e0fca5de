"""Serving: which adapters servers of models should have, what makes them have these, and whether they give what was
evaluated."""
