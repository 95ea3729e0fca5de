"""Parity: whether a server with its very settings gives what was evaluated."""
