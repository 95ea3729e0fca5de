"""Where kernels run: chunk by chunk, in processes on this machine or on Ray, with a cache by content."""
