"""What Prometheus is told of a server and of the platform."""
