"""Suites whose answers the model writes and this code checks: one module per kind."""
