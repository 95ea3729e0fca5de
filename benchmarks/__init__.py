"""Figures, each beside its peer's, printed by ``python -m benchmarks NAME``."""
