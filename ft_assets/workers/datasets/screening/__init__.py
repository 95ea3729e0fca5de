"""What should not be trained on: personal data, secrets, and (opt-in) what a classifier flags."""
