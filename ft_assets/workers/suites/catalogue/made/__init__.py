"""Suites whose items our own code makes: no data are needed, and the right answers follow from the questions."""
