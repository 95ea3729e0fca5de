"""``auto`` settings from model, data, GPUs and method, and combinations that do not work. Pure."""
