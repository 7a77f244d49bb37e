"""The documentation site, in build/site: README, docs/, a reference and a page for each model.

    make site        # or: python -m tools.website

The reference and the models' pages are made from the program: typer's options, docstrings, the
registry and predictions for the demo's learner. A warning is an error, and so is a link inside the
site that leads nowhere.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SECTIONS = {
    "For learners": ("tutorial", "app", "findings", "glossary"),
    "How to": (),  # all others
    "Reference": ("formats", "metrics"),
    "Explanation": ("verdicts", "speed", "fidelity", "pretraining", "architecture", "releasing"),
}
GENERATED = ("reference/cli", "reference/python", "models/index")
PROJECT = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "addon/README")
CLASSES = (
    *("report.notebook.Results", "advice.findings.Finding", "advice.workload.estimate.Question"),
    *("models.Model", "data.trials.Trials", "data.protocol.Protocol"),
)
FIGURES = ("LogLoss", "RMSE(bins)", "AUC")


def plain(name: str) -> str:
    """A name in small letters and digits."""
    return re.sub(r"[\W_]", "", name).lower()


def table(*rows: Iterable[object]) -> str:
    head, *others = [[re.sub(r"([|<])", r"\\\1", str(each)) for each in row] for row in rows]
    lines = [" | ".join(line) for line in (head, ["---"] * len(head), *others)]
    return "".join(f"| {' '.join(line.split())} |\n" for line in lines) + "\n"


def toctree(caption: str, pages: Iterable[str]) -> str:
    return "\n".join(("\n\n```{toctree}", ":hidden:", f":caption: {caption}\n", *pages, "```\n"))


def index() -> str:
    """README, and what stands beside every page."""
    text = (ROOT / "README.md").read_text("utf-8")
    known = {each for names in SECTIONS.values() for each in names}
    others = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in known)
    for section, names in SECTIONS.items():
        pages = [f"docs/{name}" for name in names or others]
        text += toctree(section, [*(GENERATED if section == "Reference" else ()), *pages])
    return text + toctree("Project", PROJECT)


def command_line() -> str:
    """Every command with its options; a panel of several commands stands once."""
    import typer

    from srs_eval.cli.main import app

    def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
        for word, each in group.commands.items():
            if hasattr(each, "commands"):
                yield from commands(each, f"{name} {word}")
            elif not each.hidden:
                yield f"{name} {word}", each

    told: dict[str, str] = {}
    text = "# Command line\n\n`srs-eval COMMAND --help` says the same.\n\n"
    for name, each in commands(typer.main.get_group(app), "srs-eval"):
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in each.params:
            spelled = f"`{', '.join(option.opts)} {option.metavar or ''}".strip() + "`"
            rows = panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", [])
            rows.append((spelled, getattr(option, "help", "") or ""))
        text += f"## {name}\n\n{inspect.cleandoc(each.help or '')}\n\n"
        for panel, rows in panels.items():
            at = told.setdefault(str(rows), name)
            text += f"**{panel}**{'' if at == name else f': those of `{at}`'}\n\n"
            text += table(("option", "meaning"), *rows) if at == name else ""
    return text


def python() -> str:
    from srs_eval import __all__ as names

    whole = [f".. autofunction:: srs_eval.{name}" for name in (*names[1:], "batch.run_batch")]
    whole += [f".. autoclass:: srs_eval.{name}\n   :members:" for name in CLASSES]
    return "# Python\n\n```{eval-rst}\n" + "\n\n".join(whole) + "\n```\n"


def published() -> dict[str, list[tuple[str, ...]]]:
    """Rows of the table in docs/fidelity.md, by model."""
    text = (DOCS / "fidelity.md").read_text("utf-8").split("## Published in")[1]
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in re.findall(r"^\|([A-Z].*)\|$", text.partition("\n## ")[0], re.M):
        name, later, bins, auc, _, whole, *_ = line.split("|")
        model = re.split(r" (?!v\d|Reg)|,|-short", {"GRU": "GRU-503"}.get(name, name))[0]
        found.setdefault(plain(model), []).append((name, later, bins, auc, whole))
    return found


def year_of(record: dict[str, Any]) -> str:
    found = re.search(r"\b(?:19|20)\d\d\b", record["source"])
    if found is None:
        raise SystemExit(f"{record['model']}: its source names no year.")
    return found[0]


def facts(name: str, of_model: list[dict[str, Any]]) -> str:
    """What registry, module and notes say of a model."""
    from srs_eval.report.console import INPUTS

    first = of_model[0]
    module = import_module(first["file"].removesuffix(".py").replace("/", "."))
    text = f"# {name}\n\n{first['note']}\n\n" + table(
        ("model", name),
        ("year", year_of(first)),
        ("source", first["source"]),
        ("inputs", ", ".join(INPUTS.get(each, each) for each in first["inputs"].split(", "))),
        ("parameters", f"{first['parameters']:,}"),
        ("evaluated on", first["evaluated_on"]),
        ("configurations", ", ".join(f"`{each['configuration']}`" for each in of_model)),
        ("code", f"[{first['file']}](../{first['file']})"),
    )
    stems = {plain(Path(first["file"]).stem), plain(name), plain(name.split("-")[0])}
    for note in (DOCS / "models").glob("*.md"):
        if plain(note.stem) in stems:
            text += f"More: [docs/models/{note.name}](../docs/models/{note.name})\n\n"
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    steps = [step for step in map(inspect.getsource, functions) if "w: Value) ->" in step]
    text += f"## What it is\n\n{module.__doc__}\n\n"
    if steps:
        code = "```python\n" + "\n\n".join(steps) + "```"
        text += f"<details><summary>Its formulas as code</summary>\n\n{code}\n\n</details>\n\n"
    return text


def models(folder: Path) -> None:
    """A page for each model, and one of all."""
    import srs_eval
    from srs_eval.data.paths import DEMO_FILE
    from srs_eval.models import all_models
    from srs_eval.report.document import Picture
    from srs_eval.report.export import models_document
    from srs_eval.report.pictures import SMALL, calibration, svg
    from srs_eval.stats.intervals import calibration_graph

    results = srs_eval.evaluate(srs_eval.load(DEMO_FILE), models="all")
    rows, means = [("model", "year", "parameters", "log loss")], published()
    listed = models_document(all_models())["models"]
    for name in all_models():
        of_model = [each for each in listed if each["model"] == name]
        page = re.sub(r"[^a-z0-9.+]+", "-", name.lower().replace("%", "-percent")).strip("-")
        text = facts(name, of_model) + "## How well it predicts\n\n"
        names = [each["configuration"] for each in of_model if each["configuration"] in results]
        if names:
            figures = [results[each].metrics.to_upstream() for each in names]
            text += "The demo's learner, whose memory is simulated by FSRS-6:\n\n" + table(
                ("", *FIGURES),
                *((each, *map(row.get, FIGURES)) for each, row in zip(names, figures, strict=True)),
            )
            graph = calibration_graph(results[names[0]].y, results[names[0]].p)
            drawn = Picture(page, page, calibration([(names[0], graph)], SMALL))
            (folder / f"{page}.svg").write_bytes(
                svg(drawn)[0].replace(b"<svg ", b'<svg style="background:#fff" ', 1)
            )
            text += f"![Share recalled by predicted recall]({page}.svg)\n\n"
        if of_means := means.get(plain(name), []):
            text += "srs-benchmark, August 2026, means by users on later days, last on all reviews "
            text += "([more](../docs/fidelity.md#published-in-2026)):\n\n"
            text += table(("", *FIGURES, "LogLoss, all"), *of_means)
        text += "" if names or of_means else "It needs weights or predictions of your own.\n"
        (folder / f"{page}.md").write_text(text, "utf-8")
        loss = {plain(each[0]): each[1] for each in reversed(of_means)}
        first = of_model[0]
        shown = loss.get(plain(name)) or next(iter(loss.values()), "")
        rows.append((f"[{name}]({page}.md)", year_of(first), first["parameters"], shown))
    text = "# Models\n\nLog loss: srs-benchmark's mean of 9,999 users, 2026.\n\n" + table(*rows)
    pages = sorted(path.stem for path in folder.glob("*.md"))
    notes = sorted(path.stem for path in (DOCS / "models").glob("*.md"))
    notes = [f"{name}: notes </docs/models/{name}>" for name in notes]
    text += toctree("Models", [*pages, *notes])
    (folder / "index.md").write_text(text, "utf-8")


def as_rst(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text in which `names` are code."""
    words = re.split(r"(`[^`]+`)", "\n".join(lines))
    words[::2] = [re.sub(r"([*|]|_\b)", r"\\\1", each) for each in words[::2]]
    words[1::2] = [f"`{each}`" for each in words[1::2]]
    lines[:] = "".join(words).splitlines()


def as_page(app: Any, page: str, text: list[str]) -> None:
    """Without diagrams, whose table says the same; README is the site's first page."""
    text[0] = re.sub(r"```mermaid\n.*?```\n", "", text[0], flags=re.S)
    text[0] = text[0].replace("(../README.md", "(../index.md")


def build(folder: Path, out: Path) -> int:
    """Sphinx's exit status."""
    from sphinx.application import Sphinx

    settings = {
        "project": "srs-eval",
        "extensions": ["myst_parser", "sphinx.ext.autodoc"],
        "html_theme": "furo",
        "html_title": "srs-eval",
        "smartquotes": False,
        "html_show_sourcelink": False,
        "include_patterns": ["index.md", "docs/**.md", "reference/*", "models/*"]
        + [f"{each}.md" for each in PROJECT],
        "myst_heading_anchors": 4,
        "autodoc_typehints": "none",
    }
    paths = (str(folder), None, str(out), str(out.with_name("doctrees")))
    app = Sphinx(*paths, "html", settings, status=None, warningiserror=True, freshenv=True)
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("source-read", as_page)
    app.build()
    return int(app.statuscode)


def lost_links(site: Path) -> list[str]:
    """ "page: link" of what leads nowhere inside the site."""
    pages = {path.resolve(): path.read_text("utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    lost = []
    for path, text in pages.items():
        for link in sorted(set(re.findall(r'\b(?:href|src)="(?!\w+:|//)([^"]+)"', text))):
            file, _, anchor = unquote(link).partition("#")
            at = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not at.is_file() or (anchor and at in pages and anchor not in anchors[at]):
                lost.append(f"{path.name}: {link} leads nowhere")
    return lost


def main() -> int:
    folder, out = ROOT / "build" / "site-source", ROOT / "build" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    here = shutil.ignore_patterns(
        ".git", ".venv*", ".cache", "build", "README.md", "tests", "*.pyc"
    )
    shutil.copytree(ROOT, folder, ignore=here)
    for name in ("reference", "models"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "addon" / "README.md", folder / "addon")
    (folder / "index.md").write_text(index(), "utf-8")
    (folder / "reference" / "cli.md").write_text(command_line(), "utf-8")
    (folder / "reference" / "python.md").write_text(python(), "utf-8")
    models(folder / "models")
    status, lost = build(folder, out), lost_links(out)
    print(*lost, sep="\n")
    return status or bool(lost)


if __name__ == "__main__":
    sys.exit(main())
