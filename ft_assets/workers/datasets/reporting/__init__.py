"""The report of a curated version: its numbers, its advice, and the page that the tenant reads."""
