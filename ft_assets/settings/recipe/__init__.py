"""Recipes: what is trained from which base, how, and which gates it must pass. Immutable once registered."""
