"""Chat templates: untrusted Jinja in a sandbox, a conversation as text, and shapes of conversations rendered once."""
