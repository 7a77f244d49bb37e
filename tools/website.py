"""Makes the documentation site (`make site`, or python -m tools.website) in build/website/html.

README and docs/ are taken as they are; the reference and a page for each model are made from
typer's options, docstrings, the registry and predictions for the demo's learner. A warning is an
error, and so is a link inside that leads nowhere.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NOTES = sorted(path.stem for path in (DOCS / "models").glob("*.md"))
SECTIONS = {
    "For learners": ("tutorial", "app", "findings", "glossary"),
    "How to": (),  # all others
    "Reference": ("/reference/cli", "/reference/python", "/models/index", "formats", "metrics"),
    "Explanation": ("verdicts", "speed", "fidelity", "pretraining", "architecture", "releasing"),
    "Project": ("/CHANGELOG", "/CONTRIBUTING", "/SECURITY", "/addon/README"),
}
CLASSES = """report.notebook.Results advice.findings.Finding advice.workload.estimate.Question
models.Model data.trials.Trials data.protocol.Protocol"""
SETTINGS = {
    **dict.fromkeys(("project", "html_title"), "srs-eval"),
    "html_theme": "furo",
    **dict.fromkeys(("html_show_sourcelink", "html_show_copyright"), False),
    "extensions": ["myst_parser", "sphinx.ext.autodoc"],
    "myst_heading_anchors": 4,
    "autodoc_typehints": "none",
    "default_role": "code",
    "smartquotes": False,
    "include_patterns": ["*.md", "addon/README.md", "docs/**.md", "reference/*", "models/*"],
}
FIGURES = ("LogLoss", "RMSE(bins)", "AUC")


def plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def table(*rows: Any) -> str:
    head, *others = [[re.sub(r"([|<])", r"\\\1", str(each)) for each in row] for row in rows]
    lines = [" | ".join(line) for line in (head, ["---"] * len(head), *others)]
    return "".join(f"| {' '.join(line.split())} |\n" for line in lines) + "\n"


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(("\n\n```{toctree}", ":hidden:", f":caption: {caption}\n", *pages, "```\n"))


def reference(folder: Path) -> None:
    """The command line, as `typer utils docs` has it, and the Python interface."""
    import typer
    from typer.cli import get_docs_for_click

    from srs_eval import __all__ as names
    from srs_eval.cli.main import app

    group = typer.main.get_group(app)
    for command in group.commands.values():
        command.short_help = (command.help or "").partition("\n")[0]  # whole, not cut at 45
    said = {"ctx": typer.Context(group), "name": "srs-eval", "title": "Command line"}
    text = get_docs_for_click(obj=group, **said)
    (folder / "cli.md").write_text(text, "utf-8")
    public = [f".. autofunction:: srs_eval.{name}" for name in (*names[1:], "batch.run_batch")]
    public += [f".. autoclass:: srs_eval.{name}\n   :members:" for name in CLASSES.split()]
    text = "# Python\n\n```{eval-rst}\n" + "\n\n".join(public) + "\n```\n"
    (folder / "python.md").write_text(text, "utf-8")


def published() -> dict[str, list[tuple[str, ...]]]:
    """Rows of the table in docs/fidelity.md, by model."""
    text = (DOCS / "fidelity.md").read_text("utf-8").split("## Published in")[1]
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in re.findall(r"^\|([A-Z].*)\|$", text.partition("\n## ")[0], re.M):
        name, later, bins, auc, _, whole, *_ = line.split("|")
        name = {"GRU": "GRU-503", "LSTM": "(another network)"}.get(name, name)
        model = re.split(r" (?!v\d|Reg)|,|-short", name)[0]
        found.setdefault(plain(model), []).append((name, later, bins, auc, whole))
    return found


def facts(name: str, of_model: list[dict[str, Any]], year: str) -> str:
    """What registry, module and notes say of a model."""
    from srs_eval.report.console import INPUTS

    first = of_model[0]
    module = import_module(first["file"].removesuffix(".py").replace("/", "."))
    text = f"# {name}\n\n{first['note']}\n\n" + table(
        ("model", name),
        ("year", year),
        ("source", first["source"]),
        ("inputs", ", ".join(INPUTS.get(each, each) for each in first["inputs"].split(", "))),
        ("parameters", f"{first['parameters']:,}"),
        ("evaluated on", first["evaluated_on"]),
        ("configurations", ", ".join(f"`{each['configuration']}`" for each in of_model)),
        ("code", f"[{first['file']}](../{first['file']})"),
    )
    stems = [plain(each) for each in (name, Path(first["file"]).stem, name.split("-")[0])]
    notes = [note for stem in stems for note in NOTES if plain(note) == stem]
    for note in notes[:1]:
        text += f"More: [docs/models/{note}.md](../docs/models/{note}.md)\n\n"
    functions = filter(inspect.isfunction, vars(module).values())
    steps = [step for step in map(inspect.getsource, functions) if "w: Value) ->" in step]
    code = "\n\n```python\n" + "\n\n".join(steps) + "```\n\n</details>\n\n"
    text += f"## What it is\n\n{module.__doc__}\n\n"
    return text + f"<details><summary>As code</summary>{code}" * bool(steps)


def models(folder: Path) -> None:
    """A page for each model, and one of all."""
    import srs_eval
    from srs_eval.data.paths import DEMO_FILE
    from srs_eval.models import all_models
    from srs_eval.report.document import Picture
    from srs_eval.report.export import models_document
    from srs_eval.report.pictures import SMALL, calibration, svg
    from srs_eval.stats.intervals import calibration_graph

    more = [each.name for each in all_models().values() if each.extra and not each.given]
    results = srs_eval.evaluate(srs_eval.load(DEMO_FILE), models=["all", *more])
    rows, means = [("model", "log loss", "year", "parameters")], published()
    listed = models_document(all_models())["models"]
    for name in all_models():
        of_model = [each for each in listed if each["model"] == name]
        page = re.sub(r"[^a-z0-9.+]+", "-", name.lower().replace("%", "-percent")).strip("-")
        year = re.findall(r"\b(?:19|20)\d\d\b", of_model[0]["source"])[0]
        text = facts(name, of_model, year) + "## How well it predicts\n\n"
        names = (each["configuration"] for each in of_model)
        done = {each: results[each] for each in names if each in results}
        if done:
            text += "The demo's learner, whose memory is simulated by FSRS-6:\n\n"
            figures = [(key, *map(p.metrics.to_upstream().get, FIGURES)) for key, p in done.items()]
            text += table(("", *FIGURES), *figures) + f"![Recalled by predicted]({page}.svg)\n\n"
            graphs = [(each, calibration_graph(p.y, p.p)) for each, p in [*done.items()][:1]]
            drawn, _ = svg(Picture(page, page, calibration(graphs, SMALL)))
            drawn = drawn.replace(b"<svg ", b'<svg style="background:#fff" ', 1)
            (folder / f"{page}.svg").write_bytes(drawn)
        if of_means := means.get(plain(name), []):
            text += "srs-benchmark, August 2026, means by users on later days, last on all reviews "
            text += "([more](../docs/fidelity.md#published-in-2026)):\n\n"
            text += table(("", *FIGURES, "LogLoss, all"), *of_means)
        text += "" if done or of_means else "It needs weights or predictions of your own.\n"
        (folder / f"{page}.md").write_text(text, "utf-8")
        loss = {plain(each[0]): each[1] for each in of_means}.get(plain(name), "")
        rows.append((f"[{name}]({page}.md)", loss, year, of_model[0]["parameters"]))
    text = "# Models\n\nLog loss: srs-benchmark's mean of 9,999 users, 2026.\n\n" + table(*rows)
    pages = [path.stem for path in sorted(folder.glob("*.md"))]
    text += toctree("Models", [*pages, *(f"{name}: notes </docs/models/{name}>" for name in NOTES)])
    (folder / "index.md").write_text(text, "utf-8")


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
    from sphinx.application import Sphinx

    folder, out = ROOT / "build" / "website" / "source", ROOT / "build" / "website" / "html"
    shutil.rmtree(folder.parent, ignore_errors=True)
    left_out = shutil.ignore_patterns(".git", ".venv*", ".cache", "build", "tests")
    shutil.copytree(ROOT, folder, ignore=left_out)
    for path in (*folder.glob("docs/*.md"), folder / "addon" / "README.md"):
        text = re.sub(r"```mermaid\n.*?```\n", "", path.read_text("utf-8"), flags=re.S)
        path.write_text(text.replace("(../README.md", "(../index.md"), "utf-8")
    for make in (reference, models):
        (folder / make.__name__).mkdir()
        make(folder / make.__name__)
    text = (folder / "README.md").rename(folder / "index.md").read_text("utf-8")
    known = {each for pages in SECTIONS.values() for each in pages}
    others = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in known)
    for section, pages in SECTIONS.items():
        text += toctree(section, [f"/docs/{page}".rpartition("//")[2] for page in pages or others])
    (folder / "index.md").write_text(text, "utf-8")
    paths = (str(folder), None, str(out), str(out.with_name("doctrees")))
    site = Sphinx(*paths, "html", SETTINGS, status=None, warningiserror=True, freshenv=True)
    site.build()
    lost = lost_links(out)
    print(*lost, sep="\n", end="\n" * bool(lost))
    return site.statuscode or bool(lost)


if __name__ == "__main__":
    sys.exit(main())
