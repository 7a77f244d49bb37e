"""The screens of the terminal app, each in its own file, imported when first shown."""
