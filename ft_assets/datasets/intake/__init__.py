"""Files as tenants have them, and Hub datasets, to JSON lines; hostile formats in a process with limits."""
