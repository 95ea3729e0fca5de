"""Parity proofs, that servers answer as the evaluated model did: their records, and what production demands."""
