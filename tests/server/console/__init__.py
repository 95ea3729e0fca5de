"""The console: pages for people who never open Dagster."""
