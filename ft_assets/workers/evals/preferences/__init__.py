"""Which of two answers is better, according to a judge model."""
