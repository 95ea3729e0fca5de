"""The input of a forward pass, attention inside documents only, and the proof that packed losses equal those alone."""
