"""Which of two answers is better, as a judge model says."""
