"""Datasets: an upload becomes a version, a version becomes clean, split and explained rows."""
