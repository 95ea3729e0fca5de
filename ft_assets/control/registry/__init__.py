"""Registering: dataset versions and recipes get create-only names, once everything about them has been checked."""
