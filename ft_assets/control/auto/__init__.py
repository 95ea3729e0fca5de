"""``auto`` settings, resolved from model, data, GPUs and method, and invalid combinations. Pure."""
