"""Rejected candidates: why, what their curves say, and what passed before."""
