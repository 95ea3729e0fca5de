"""Notices: who outside is told of what happened, at least once, and what became of each telling."""
