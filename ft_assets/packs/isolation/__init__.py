"""What a forward pass reads, attention inside documents only, and the proof that packed equals alone."""
