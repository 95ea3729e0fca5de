"""The offline demo: a tiny base model, a data set made on the spot, a general suite and two recipes."""
