"""Sources of rows: what is noticed, what is fetched, and what a tenant may not reach."""
