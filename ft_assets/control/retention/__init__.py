"""Retention: retiring old dataset versions, and clean-up after finished or abandoned work."""
