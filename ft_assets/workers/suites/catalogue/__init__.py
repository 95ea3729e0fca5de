"""Public benchmarks that one command installs: where their data are, and how they become suites. It holds no data."""
