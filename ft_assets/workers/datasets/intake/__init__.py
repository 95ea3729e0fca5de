"""Turns tenants' files and Hub datasets into JSON lines; hostile formats are read in a process with limits."""
