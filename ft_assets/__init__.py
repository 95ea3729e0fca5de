"""The graph: one folder per noun, declarations beside pure work."""
