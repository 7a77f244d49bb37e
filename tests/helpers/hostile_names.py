"""A name that does harm where a terminal obeys it."""

from __future__ import annotations

import re

WICKED = "\x1b[2J\x1b]0;owned\x07[red]\u202egpj\x9b31m"
"""Control sequences, a title, a bell, markup and a change of direction."""
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal would obey."""
