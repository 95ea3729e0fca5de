"""Lines of adapters: which adapter is in which stage, promotion and rollback, and releases of held bases."""
