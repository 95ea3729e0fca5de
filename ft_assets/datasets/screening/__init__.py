"""What should not be learned: personal data, secrets, and (opt-in) what a classifier objects to."""
