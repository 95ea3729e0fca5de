"""Notices: at-least-once delivery of events to outside receivers, and the result of each delivery."""
