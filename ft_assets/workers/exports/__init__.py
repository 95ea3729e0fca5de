"""Exports: an adapter and its base as one model for other engines, proved equal before it is published."""
