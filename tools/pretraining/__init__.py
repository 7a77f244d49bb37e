"""Make the shipped weights of the models."""
