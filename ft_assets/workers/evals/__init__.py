"""Evaluation: suites, scores, evidence, gates."""
