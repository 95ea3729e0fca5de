"""Telemetry of a running training: speed, memory, alerts, Prometheus metrics."""
