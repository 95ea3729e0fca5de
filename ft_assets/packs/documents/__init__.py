"""Rows of a dataset become labelled documents: pure, batch by batch, in processes."""
