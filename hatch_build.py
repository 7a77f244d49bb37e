"""Tell the build the project's addresses, which are left out while there is none.

Hatch calls it: https://hatch.pypa.io/latest/plugins/metadata-hook/custom/
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def find_urls(root: Path) -> dict[str, str]:
    """Return the project's addresses by their labels on PyPI; {} while HOMEPAGE is empty."""
    paths = (root / "srs_eval" / "data" / "paths.py").read_text(encoding="utf-8")
    found = re.search(r'^HOMEPAGE = "([^"]*)"', paths, re.M)
    assert found is not None, "srs_eval/data/paths.py has no HOMEPAGE"
    homepage = found[1]
    if not homepage:
        return {}
    return {
        "Homepage": homepage,
        "Issues": f"{homepage}/issues",
        "Changelog": f"{homepage}/blob/main/CHANGELOG.md",
    }


class CustomMetadataHook(MetadataHookInterface):
    """Set `urls`, which pyproject.toml declares to be dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        urls = find_urls(Path(self.root))
        if urls:
            metadata["urls"] = urls
