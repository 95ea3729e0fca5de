"""Text to ids: tokenizers, with control tokens only where a template wrote them, and their engines."""
