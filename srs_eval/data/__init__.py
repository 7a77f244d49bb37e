"""Read review histories from files and turn them into trials."""
