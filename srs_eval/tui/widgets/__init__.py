"""Widgets of the terminal app's screens."""
