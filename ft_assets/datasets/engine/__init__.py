"""Where kernels run: chunk by chunk, in processes of this machine or on Ray, with a cache by content."""
