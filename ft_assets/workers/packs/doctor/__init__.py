"""The doctor: checks the output of the trainer's collator, and records evidence of what it found."""
