"""Screens, widgets and background work of the terminal app."""
