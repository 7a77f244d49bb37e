"""What the terminal app is made of."""
