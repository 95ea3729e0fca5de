"""One file a noun: the assets of the graph, each a request for work and what is shown of its result."""
