"""From a file to trials, one way."""
