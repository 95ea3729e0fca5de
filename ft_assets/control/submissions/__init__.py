"""Submissions: checking and recording requests, and the plan that turns them into runs."""
