"""A model's architecture, parameters, memory and time, computed from ``config.json``. No torch."""
