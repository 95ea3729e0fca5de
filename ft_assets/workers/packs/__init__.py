"""Token packs: chat template, labels, packing, the file format, and the doctor that checks the result."""
