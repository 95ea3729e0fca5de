"""Similarity: MinHash bands, verified near-duplicates, 13-word overlap with test items. Needs numba."""
