"""Make the documentation site (`make site`, or python -m tools.website) in build/website/html.

README and docs/ are used as they are; the reference and a page for each model are made from
typer's options, docstrings, the registry and predictions for the demo's learner. A warning is an
error, and so is a broken link within the site.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import sys
from collections.abc import Sequence
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
    "Reference": (
        "/reference/cli",
        "/reference/python",
        "/models/index",
        "formats",
        "metrics",
        "schedulability",
        "protocol",
        "vectors",
    ),
    "Explanation": ("verdicts", "speed", "fidelity", "pretraining", "architecture", "releasing"),
    "Project": ("/CHANGELOG", "/CONTRIBUTING", "/SECURITY", "/addon/README"),
}
CLASSES = """report.notebook.Results advice.findings.Finding
advice.workload.estimate.WorkloadQuestion models.TrainedModel models.OnlineModel models.Ensemble
models.Cost data.trials.Trials data.protocol.Protocol"""
SETTINGS = {
    "project": "srs-eval",
    "html_title": "srs-eval",
    "html_theme": "furo",
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "extensions": ["myst_parser", "sphinx.ext.autodoc"],
    "myst_heading_anchors": 4,
    "autodoc_typehints": "none",
    "default_role": "code",
    "smartquotes": False,
    "include_patterns": ["*.md", "addon/README.md", "docs/**.md", "reference/*", "models/*"],
}
FIGURES = ("LogLoss", "RMSE(bins)", "AUC")


def simplify(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub(r"[\W_]", "", name).lower()


def format_table(rows: Sequence[Sequence[Any]]) -> str:
    """Format rows, of which the first is the heading, as a table of Markdown."""
    escaped_rows = []
    for row in rows:
        escaped_rows.append([re.sub(r"([|<])", r"\\\1", str(cell)) for cell in row])
    escaped_rows.insert(1, ["---"] * len(escaped_rows[0]))
    lines = [" | ".join(cells) for cells in escaped_rows]
    return "".join(f"| {' '.join(line.split())} |\n" for line in lines) + "\n"


def format_toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(("\n\n```{toctree}", ":hidden:", f":caption: {caption}\n", *pages, "```\n"))


def write_command_reference(folder: Path) -> None:
    """Write cli.md, the reference of the command line (by `typer utils docs`)."""
    import typer
    from typer.cli import get_docs_for_click

    from srs_eval.cli.main import app

    group = typer.main.get_group(app)
    for name in [name for name, command in group.commands.items() if command.hidden]:
        del group.commands[name]
    for command in group.commands.values():
        command.short_help = (command.help or "").partition("\n")[0]  # whole, not cut at 45
    text = get_docs_for_click(
        obj=group, ctx=typer.Context(group), name="srs-eval", title="Command line"
    )
    (folder / "cli.md").write_text(text, "utf-8")


def write_reference(folder: Path) -> None:
    """Write the references of the command line and of the Python interface."""
    from srs_eval import __all__ as names

    write_command_reference(folder)
    public = [f".. autofunction:: srs_eval.{name}" for name in (*names[1:], "batch.run_batch")]
    public += [f".. autoclass:: srs_eval.{name}\n   :members:" for name in CLASSES.split()]
    text = "# Python\n\n```{eval-rst}\n" + "\n\n".join(public) + "\n```\n"
    (folder / "python.md").write_text(text, "utf-8")


def read_published() -> dict[str, list[tuple[str, ...]]]:
    """Read the rows of the table in docs/fidelity.md, by model."""
    text = (DOCS / "fidelity.md").read_text("utf-8").split("## Published in")[1]
    rows_by_model: dict[str, list[tuple[str, ...]]] = {}
    for line in re.findall(r"^\|([A-Z].*)\|$", text.partition("\n## ")[0], re.M):
        name, later, bins, auc, _, all_reviews, *_ = line.split("|")
        name = {"GRU": "GRU-503", "LSTM": "(another network)"}.get(name, name)
        model = re.split(r" (?!v\d|Reg)|,|-short", name)[0]
        rows_by_model.setdefault(simplify(model), []).append((name, later, bins, auc, all_reviews))
    return rows_by_model


def collect_facts(name: str, of_model: list[dict[str, Any]], year: str) -> str:
    """Collect what registry, module and notes say about a model."""
    from srs_eval.report.console import INPUT_MEANINGS

    first = of_model[0]
    module = import_module(first["file"].removesuffix(".py").replace("/", "."))
    inputs = [INPUT_MEANINGS.get(code, code) for code in first["inputs"].split(", ")]
    configurations = [f"`{entry['configuration']}`" for entry in of_model]
    facts = (
        ("model", name),
        ("year", year),
        ("source", first["source"]),
        ("inputs", ", ".join(inputs)),
        ("parameters", f"{first['parameters']:,}"),
        ("evaluated on", first["evaluated_on"]),
        ("configurations", ", ".join(configurations)),
        ("code", f"[{first['file']}](../{first['file']})"),
    )
    text = f"# {name}\n\n{first['note']}\n\n" + format_table(facts)
    stems = [simplify(title) for title in (name, Path(first["file"]).stem, name.split("-")[0])]
    notes = []
    for stem in stems:
        notes += [note for note in NOTES if simplify(note) == stem]
    for note in notes[:1]:
        text += f"More: [docs/models/{note}.md](../docs/models/{note}.md)\n\n"
    functions = filter(inspect.isfunction, vars(module).values())
    steps = [step for step in map(inspect.getsource, functions) if "w: Value) ->" in step]
    code = "\n\n```python\n" + "\n\n".join(steps) + "```\n\n</details>\n\n"
    text += f"## What it is\n\n{module.__doc__}\n\n"
    if steps:
        text += f"<details><summary>As code</summary>{code}"
    return text


def write_model_pages(folder: Path) -> None:
    """Write a page for each model, and an overview of all."""
    import srs_eval
    from srs_eval.data.paths import DEMO_FILE
    from srs_eval.models import ExternalModel, all_models
    from srs_eval.report.document import Picture
    from srs_eval.report.export import build_models_document
    from srs_eval.report.pictures import SMALL_SIZE, calibration_chart, render_svg
    from srs_eval.stats.intervals import compute_calibration_graph

    extra = [
        model.name
        for model in all_models().values()
        if model.extra and not isinstance(model, ExternalModel)
    ]
    results = srs_eval.evaluate(srs_eval.load(DEMO_FILE), models=["all", *extra])
    rows = [("model", "log loss", "year", "parameters")]
    means = read_published()
    listed = build_models_document(all_models())["models"]
    for name in all_models():
        of_model = [entry for entry in listed if entry["model"] == name]
        page = re.sub(r"[^a-z0-9.+]+", "-", name.lower().replace("%", "-percent")).strip("-")
        year = re.findall(r"\b(?:19|20)\d\d\b", of_model[0]["source"])[0]
        text = collect_facts(name, of_model, year) + "## How well it predicts\n\n"
        names = [entry["configuration"] for entry in of_model]
        done = {key: results[key] for key in names if key in results}
        if done:
            text += "The demo's learner, whose memory is simulated by FSRS-6:\n\n"
            figures: list[tuple[Any, ...]] = [("", *FIGURES)]
            for configuration, result in done.items():
                metrics = result.metrics.to_upstream()
                figures.append((configuration, *(metrics.get(figure) for figure in FIGURES)))
            text += format_table(figures) + f"![Recalled by predicted]({page}.svg)\n\n"
            first = next(iter(done))
            graph = compute_calibration_graph(done[first].y, done[first].p)
            chart = calibration_chart([(first, graph)], SMALL_SIZE)
            drawn, _ = render_svg(Picture(page, page, chart))
            drawn = drawn.replace(b"<svg ", b'<svg style="background:#fff" ', 1)
            (folder / f"{page}.svg").write_bytes(drawn)
        of_means = means.get(simplify(name), [])
        if of_means:
            text += "srs-benchmark, August 2026, means by users on later days, last on all reviews "
            text += "([more](../docs/fidelity.md#published-in-2026)):\n\n"
            text += format_table([("", *FIGURES, "LogLoss, all"), *of_means])
        if not done and not of_means:
            text += "It needs weights or predictions of your own.\n"
        (folder / f"{page}.md").write_text(text, "utf-8")
        losses = {simplify(row[0]): row[1] for row in of_means}
        loss = losses.get(simplify(name), "")
        rows.append((f"[{name}]({page}.md)", loss, year, of_model[0]["parameters"]))
    text = "# Models\n\nLog loss: srs-benchmark's mean of 9,999 users, 2026.\n\n"
    text += format_table(rows)
    pages = [path.stem for path in sorted(folder.glob("*.md"))]
    text += format_toctree(
        "Models", [*pages, *(f"{name}: notes </docs/models/{name}>" for name in NOTES)]
    )
    (folder / "index.md").write_text(text, "utf-8")


def find_broken_links(site: Path) -> list[str]:
    """Find broken links within the site, as "page: link"."""
    pages = {path.resolve(): path.read_text("utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in sorted(set(re.findall(r'\b(?:href|src)="(?!\w+:|//)([^"]+)"', text))):
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not target.is_file() or (
                anchor and target in pages and anchor not in anchors[target]
            ):
                broken.append(f"{path.name}: {link} leads nowhere")
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(
        prog="python -m tools.website",
        description="Make the documentation site in build/website/html.",
        epilog="The exit code is 1 if a link within the site leads nowhere.",
    ).parse_args(arguments)
    from sphinx.application import Sphinx

    folder = ROOT / "build" / "website" / "source"
    out = ROOT / "build" / "website" / "html"
    shutil.rmtree(folder.parent, ignore_errors=True)
    left_out = shutil.ignore_patterns(".git", ".venv*", ".cache", "build", "tests")
    shutil.copytree(ROOT, folder, ignore=left_out)
    for path in (*folder.glob("docs/*.md"), folder / "addon" / "README.md"):
        text = re.sub(r"```mermaid\n.*?```\n", "", path.read_text("utf-8"), flags=re.S)
        path.write_text(text.replace("(../README.md", "(../index.md"), "utf-8")
    for name, write_pages in (("reference", write_reference), ("models", write_model_pages)):
        (folder / name).mkdir()
        write_pages(folder / name)
    text = (folder / "README.md").rename(folder / "index.md").read_text("utf-8")
    listed: set[str] = set()
    for pages in SECTIONS.values():
        listed.update(pages)
    unlisted = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in listed)
    for section, pages in SECTIONS.items():
        paths = [f"/docs/{page}".rpartition("//")[2] for page in pages or unlisted]
        text += format_toctree(section, paths)
    (folder / "index.md").write_text(text, "utf-8")
    site = Sphinx(
        srcdir=str(folder),
        confdir=None,
        outdir=str(out),
        doctreedir=str(out.with_name("doctrees")),
        buildername="html",
        confoverrides=SETTINGS,
        status=None,
        warningiserror=True,
        freshenv=True,
    )
    site.build()
    broken_links = find_broken_links(out)
    for link in broken_links:
        print(link)
    if broken_links:
        return 1
    return site.statuscode


if __name__ == "__main__":
    sys.exit(main())
