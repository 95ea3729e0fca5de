"""Dagster's view of the platform: assets, checks, jobs, partitions, and the ops that launch work and report on it.

What is decided and computed belongs to ``control`` and ``workers``, which this imports; nothing but the command line,
the sensors and ``definitions`` imports this.
"""
