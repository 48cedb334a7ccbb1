"""How stores end, and what breaks in while they live."""
