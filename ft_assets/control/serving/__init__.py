"""Serving: which adapters model servers should load, the reconciler that makes them, the meaning of names, and the
inputs of parity checks."""
