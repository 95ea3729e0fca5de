"""Proofs that servers give what was evaluated: their records, and what production demands of them."""
