"""Sensors: each asks the API for the next step of something, and shows what it did."""
