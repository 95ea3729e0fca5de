"""The console: pages for people who never open Dagster, over the same functions as the API."""
