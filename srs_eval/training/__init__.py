"""Training of the models: one idea per file."""
