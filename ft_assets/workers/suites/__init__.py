"""Suites: their files, kinds, items and scores. ``workers/evals`` loads models and prompts them."""
