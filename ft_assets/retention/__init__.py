"""Retention: which dataset versions are retired, and what finished or abandoned work leaves behind."""
