"""Model servers: their interface, and the HTTP client for vLLM's dialect."""
