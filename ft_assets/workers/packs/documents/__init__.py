"""Convert a dataset's rows to labelled documents: pure, batch by batch, in processes."""
