"""Base bumps: when a base model moves, its adapters are carried to the new base, and those that fail are retrained."""
