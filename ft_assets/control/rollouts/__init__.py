"""Rollouts: a candidate takes a growing share of a line's traffic, and the evidence decides how the rollout ends."""
