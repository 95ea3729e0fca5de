"""The Python API from afar: its functions, asked for over HTTP by the holder of a key."""
