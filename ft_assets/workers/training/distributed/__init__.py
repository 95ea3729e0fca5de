"""One training on several processes: how they start and stop, and how they share the model."""
