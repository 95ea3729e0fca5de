"""``ft``, the command line: one file per noun. What is slow is imported inside the commands, so help is quick."""
