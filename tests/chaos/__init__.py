"""Faults of each kind, at seeded moments, on work that runs on a cluster; and what must be whole afterwards.

The processes are real: run workers and a daemon that are killed, workers in pods, a PostgreSQL, an S3 server behind a
proxy that fails. ``python -m benchmarks cluster`` runs a hundred; the tests one of each kind.
"""
