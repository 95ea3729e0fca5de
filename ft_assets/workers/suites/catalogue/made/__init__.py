"""Suites whose items our own code generates: they need no data, and the right answers follow from the questions."""
