"""Made-up result files, and the checks of a page."""

from __future__ import annotations

import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np


def result_line(user: int, loss: float, size: int = 100, **extra: Any) -> str:
    auc = extra.pop("auc", 0.7)
    metrics = {"RMSE": 0.3, "LogLoss": loss, "RMSE(bins)": loss / 5, "ICI": 0.01, "AUC": auc}
    return json.dumps({"metrics": metrics, "user": user, "size": size, **extra})


def write_results(folder: Path, files: dict[str, list[str]], ending: str = ".jsonl") -> Path:
    (folder / "result").mkdir(parents=True)
    for name, lines in files.items():
        text = "".join(f"{line}\n" for line in lines).encode()
        path = folder / "result" / f"{name}{ending}"
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return folder


def many_lines(loss: float, users: int = 30, spread: float = 0.1, **extra: Any) -> list[str]:
    random = np.random.default_rng(int(loss * 1000))
    level = np.random.default_rng(0).random(users) * spread
    losses = (loss + level + random.normal(0, 0.004, users)).round(6)
    return [result_line(user, losses[user], 50 + 10 * user, **extra) for user in range(users)]


class StrictParser(HTMLParser):
    """Collect a page's elements; fail on elements that are not closed in order."""

    VOID = frozenset({"meta", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> StrictParser:
    """Check that a page is well-formed, self-contained and without a request, with unique names."""
    parser = StrictParser()
    parser.feed(text)
    assert not parser.open
    identities = [attributes["id"] for _, attributes in parser.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    for name, attributes in parser.elements:
        assert name not in ("iframe", "object", "image")
        for key in ("src", "href", "action"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (name, value)
            if value and value.startswith("#"):
                assert value[1:] in identities
    assert [name for name, _ in parser.elements].count("script") == 1
    assert not re.search("https?://", text)
    assert "@import" not in text
    for drawing in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text):
        ElementTree.fromstring(b64decode(drawing))
    return parser
