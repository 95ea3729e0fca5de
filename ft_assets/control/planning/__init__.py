"""Estimates of a training before it is launched: memory, time and price, with bounds. No torch."""
