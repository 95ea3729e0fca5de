"""Token packs: chat template, labels, packing, the file format, and the doctor who looks at the result."""
