"""What was asked for: create-only records, the plan that turns them into runs, and the ways to ask."""
