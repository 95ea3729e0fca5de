"""What a training would take, before it is launched: memory, time and price, with bounds. Pure functions, no torch."""
