"""Launchers: where a worker runs. One protocol, one set of contract tests."""
