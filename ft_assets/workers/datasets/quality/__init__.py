"""Measures of curated rows: broken text, languages, balance and the mixture."""
