"""Access: API keys, sessions, sign-ins, rate limits, and what roles allow."""
