"""Recipes: what is trained from which base, how, and what it must reach. Immutable once registered."""
