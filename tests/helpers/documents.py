"""Examples in the documents."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import REPOSITORY

GUIDE = REPOSITORY / "docs" / "adding-a-model.md"


def python_blocks(path: Path) -> list[str]:
    """Return the blocks of Python code in a Markdown file."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
