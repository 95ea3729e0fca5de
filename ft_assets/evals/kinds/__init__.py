"""Suites whose answers are written by the model and checked here: one module a kind."""
