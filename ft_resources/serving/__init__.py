"""Servers of models: what they are asked, and the client of those that speak vLLM's dialect over HTTP."""
