"""Decisions: plans over records, without heavy work.

A pair's inputs (``identity``), registration, estimates, admission of submissions, and what is promoted, carried,
billed, deleted and announced. Imports ``workers``, ``records``, ``settings`` and ``ft_resources``, but not Dagster;
``pyproject.toml`` defines the order of its folders.
"""
