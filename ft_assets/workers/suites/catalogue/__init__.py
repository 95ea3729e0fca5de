"""Public benchmarks that one command installs: where their data are, and how to convert them. It contains no data."""
