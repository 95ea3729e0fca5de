"""Sweeps: one recipe that describes several trials; the best on the validation split continues to the gates."""
