"""One training on several processes: how they are started, how they stop, and how the model is spread over them."""
