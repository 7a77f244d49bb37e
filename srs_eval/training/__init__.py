"""What trains the models: one idea a file."""
