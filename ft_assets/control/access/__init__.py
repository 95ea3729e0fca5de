"""Who may ask: API keys, and what their roles allow."""
