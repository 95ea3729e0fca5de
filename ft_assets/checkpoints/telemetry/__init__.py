"""What a training reports of itself while it runs."""
