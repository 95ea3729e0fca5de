"""Rollouts: a candidate takes a growing share of a line's traffic, and evidence from it decides how that ends."""
