"""The report on one learner, in every form."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from srs_eval.advice.findings import Fsrs7Preview, Month
from srs_eval.data.protocol import Protocol
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.loss_breakdown import break_down_loss
from srs_eval.engine.run import Finished, Run
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.console import render_document
from srs_eval.report.document import Document, Section
from srs_eval.report.files import render_as
from srs_eval.report.learner import (
    _build_loss_section,
    _build_months_section,
    _select_main_lines,
    build_learner_report,
)
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Table
from tests.helpers.program import run_in_process
from tests.helpers.reports import check_page
from tests.tui.app_world import make_answers, make_costs, make_log
from tools.simulated import simulate_learner, write_collection


@pytest.mark.slow
def test_anonymous_report_has_every_form_and_no_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srs_eval.advice.questions import QuestionContext
    from srs_eval.advice.workload.estimate import Workload, WorkloadQuestion, workload
    from srs_eval.anki_import import load_log

    def workload_of_few_draws(context: QuestionContext, **_: object) -> Workload:
        *_, result = workload(context.log, question=WorkloadQuestion(draws=3))
        return result

    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", workload_of_few_draws)
    collection = tmp_path / "somebody.anki2"
    write_collection(simulate_learner(1, 4_000), collection)
    exported = tmp_path / "exported"
    exported.mkdir()
    done = run_in_process(
        "export",
        collection,
        "--models",
        "AVG,FSRS-6-dry-run,SM2",
        "--anonymous",
        "--jobs",
        0,
        "--html",
        exported / "r.html",
        "--md",
        exported / "r.md",
        "--json",
        exported / "r.json",
        "--csv",
        exported / "csv",
        "--png",
        exported / "png",
    )
    assert done.returncode == 0, done.stderr
    html = (exported / "r.html").read_text(encoding="utf-8")
    check_page(html)
    for title in ("Answers", "Calibration", "Over time", "Your days", "What was read"):
        assert f">{title}<" in html
    text = (exported / "r.md").read_text(encoding="utf-8")
    assert (
        text.index("## Answers") < text.index("Evaluated on")
        or "Evaluated on" in text.split("##")[0]
    )
    assert text.rstrip().split("## ")[-1].startswith("Metric card")
    assert "protocol.md" in text.split("## ")[-1]
    tables = json.loads((exported / "r.json").read_text(encoding="utf-8"))["tables"]
    rows = {row["model"]: row for row in tables["ranking"]["rows"]}
    assert rows["average"]["place"] is None
    written_rows = list(csv.DictReader((exported / "csv" / "ranking.csv").open(encoding="utf-8")))
    assert [row["model"] for row in written_rows] == list(rows)
    assert float(written_rows[0]["log loss"]) == rows[written_rows[0]["model"]]["log loss"]
    by_reviews = tables["loss-by-reviews"]["rows"]
    of_one_model = [row for row in by_reviews if row["model"] == by_reviews[0]["model"]]
    assert sum(row["reviews"] for row in of_one_model) == sum(
        row["reviews"] for row in tables["months"]["rows"]
    )
    recalled = tables["months"]["rows"]
    evaluated = re.search(r"Evaluated on ([\d,]+) reviews", html)
    assert evaluated
    assert sum(row["reviews"] for row in recalled) == int(evaluated[1].replace(",", ""))
    assert {file.stem for file in (exported / "png").iterdir()} >= {"ranking", "calibration"}
    log = load_log(collection)
    names = {deck.name for deck in log.decks.values()} | {p.name for p in log.presets.values()}
    for name in list(names):
        names |= set(name.split("::")) - {"Default"}
    for path in [*exported.glob("r.*"), *exported.glob("csv/*")]:
        text_of_file = path.read_text(encoding="utf-8")
        for name in filter(None, {*names, "somebody", str(tmp_path)}):
            assert not re.search(rf"(?<!\w){re.escape(name)}\b", text_of_file), (path.name, name)
    assert "preset 1" in html.lower()
    assert "<h2>2 How well do I remember?</h2>" in html  # other panes refer to it ("see 2")
    assert html.index("<h2>Your presets<") < html.index("<img") < html.index("<h2>Answers<")
    for word in ("--preset", "--rows", "docs/", "y copies"):
        assert word not in html
    for question in ("When FSRS says 90 %, do I recall 90 %?", "Was I predictable lately?"):
        assert f"<summary>{question}<span>" in html  # as in the app
    assert re.search(
        r">0\.\d{4} higher ±\.\d{4}<", html
    )  # the difference to the best, as in the app
    assert any(isinstance(row["to the best"], float) for row in rows.values())
    assert len(text) < 10_000


@pytest.fixture(scope="module")
def simulated_run() -> Run:
    configurations = resolve_configurations("AVG,FSRS-6-dry-run,SM2")
    run = Run.from_configurations(configurations)
    for event in evaluate(simulate_learner(5, 3000).log(), configurations, use_cache=False, jobs=0):
        run.apply(event)
    return run


def test_loss_tables_have_the_figures_of_the_breakdown(simulated_run: Run) -> None:
    run = simulated_run
    lines = _select_main_lines(run, "FSRS-6-dry-run")
    words = [line.configuration.words for line in lines]
    assert words[0] == "FSRS-6 defaults"
    (section,) = _build_loss_section(run, lines)
    tables = {block.name: block for block in section.iter_blocks() if isinstance(block, Table)}
    average = run.results_by_name()["AVG"]
    for line in lines:
        breakdown = break_down_loss(line.result, average)
        (parts,) = (
            row
            for row in tables["loss-parts"].records()
            if row["model"] == line.configuration.words
        )
        assert parts["skill"] == pytest.approx(-(line.relative_to_baseline or 0))
        assert parts["reliability"] - parts["resolution"] + parts["uncertainty"] == pytest.approx(
            line.result.metrics.rmse**2
        )
        for name, groups in (
            ("loss-by-reviews", breakdown.by_reviews_before),
            ("loss-by-history", breakdown.by_fold),
        ):
            rows = [
                (row["reviews"], row["log loss"], row["average"], row["minus average"])
                for row in tables[name].records()
                if row.get("model", line.configuration.words) == line.configuration.words
            ]
            assert rows == [
                (
                    group.reviews,
                    group.log_loss,
                    group.average_log_loss,
                    group.difference and group.difference.estimate,
                )
                for group in groups
            ]


def test_loss_section_without_the_average_has_losses_only(simulated_run: Run) -> None:
    finished = simulated_run.finished_results()
    pairs = [pair for pair in finished if not pair[0].is_baseline]
    run = Run.from_configurations([configuration for configuration, _ in pairs])
    for configuration, result in pairs:
        run.apply(Finished(configuration, result))
    (section,) = _build_loss_section(run, _select_main_lines(run, "SM2"))
    tables = {block.name: block for block in section.iter_blocks() if isinstance(block, Table)}
    titles = [column.title for column in tables["loss-by-reviews"].columns]
    assert titles[-2:] == ["reviews", "log loss"]
    assert section.summary == ""
    assert _build_loss_section(run, []) == []


def test_months_add_up_to_the_result() -> None:
    from srs_eval.advice.over_time import make_date_formatter, monthly_figures

    configurations = resolve_configurations("AVG")
    run = Run.from_configurations(configurations)
    log = simulate_learner(5, 3000).log()
    for event in evaluate(log, configurations, use_cache=False, jobs=0):
        run.apply(event)
    result = run.results_by_name()["AVG"]
    months = monthly_figures(result, make_date_formatter(log, Protocol()))
    assert len(months) > 1
    assert sum(month.reviews for month in months) == result.size
    weights = [month.reviews for month in months]
    loss = np.average([month.log_loss.estimate for month in months], weights=weights)
    assert loss == pytest.approx(result.metrics.log_loss)
    predicted = np.average([month.predicted for month in months], weights=weights)
    assert predicted == pytest.approx(result.p.mean())
    assert len({month.name for month in months}) == len(months)


def test_section_of_tables_for_files_has_no_heading() -> None:
    table = Table.from_rows("months", "Month by month", ("month",), [("2026-01",)], is_shown=False)
    sections = [Section("Over time", (table,), side_by_side=True)]
    sections += [Section(title, ("A sentence.",)) for title in ("Answers", "Days", "Metric card")]
    document = Document("A collection", (), tuple(sections))
    page = render_as(document, "html")
    assert "Over time" not in page  # neither as a heading nor among the links to sections
    assert "Metric card" in page
    console = Console(file=StringIO(), width=80)
    console.print(render_document(document, 80))
    printed = console.file.getvalue()
    assert "Over time" not in printed
    assert "Metric card" in printed
    assert json.loads(render_as(document, "json"))["tables"]["months"]["rows"]


@pytest.mark.parametrize(("count", "is_for_files"), [(1, True), (2, False)])
def test_months_section_of_one_month_is_for_files(count: int, is_for_files: bool) -> None:
    share = Interval(0.9, 0.01, 100, 20)
    months = [Month(f"2026-0{number + 1}", share, 0.9, share) for number in range(count)]
    (section,) = _build_months_section("average", months)
    assert section.is_for_files_only == is_for_files
    (table,) = (block for block in section.iter_blocks() if isinstance(block, Table))
    assert len(table.rows) == count


@pytest.fixture
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Answer no question."""
    monkeypatch.setattr("srs_eval.report.learner._answer_questions", lambda *_: [])
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    return monkeypatch


def test_ranking_of_unfinished_models_says_so_far(
    nothing_asked: pytest.MonkeyPatch,
) -> None:
    log = simulate_learner(5, 3000).log()
    run = Run.from_configurations(resolve_configurations("AVG,90%,MOVING-AVG"))
    message = "so far: 2 of 3 models have finished"
    nothing_asked.setattr("srs_eval.report.learner.own_scheduler", lambda _: "90%")

    def report() -> str:
        return render_as(build_learner_report(log, run, Protocol()), "md")

    for event in evaluate(log, resolve_configurations("AVG,MOVING-AVG"), use_cache=False, jobs=0):
        run.apply(event)
    assert report().lower().count(message) == 1
    for event in evaluate(log, resolve_configurations("90%"), use_cache=False, jobs=0):
        run.apply(event)
    assert "so far" not in report().lower()
    assert "| ★ **always 90 %** |" in report()


def test_report_says_what_fsrs7_would_bring_once(nothing_asked: pytest.MonkeyPatch) -> None:
    log = simulate_learner(5, 3000).log()
    run = Run.from_configurations(resolve_configurations("AVG,MOVING-AVG"))
    for event in evaluate(log, resolve_configurations("AVG,MOVING-AVG"), use_cache=False, jobs=0):
        run.apply(event)
    line = "FSRS-7 would predict your answers 1.4 % better; Anki cannot run it yet."
    text = render_as(build_learner_report(log, run, Protocol()), "md")
    assert line not in text  # FSRS-7 is not in this ranking
    preview = Fsrs7Preview("better", Interval(0.0142, 0.004, 2_000, 100))
    nothing_asked.setattr("srs_eval.advice.questions.find_preview", lambda *_: preview)
    text = render_as(build_learner_report(log, run, Protocol()), "md")
    assert text.count(line) == 1


def test_report_while_fsrs_is_off_has_costs_once_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    costs = make_costs("Default")
    current = make_costs("Default", scale=2.0).estimates[0]
    costs = replace(
        costs,
        schedule="SM-2",
        current_figures=current,
        current_draws=(current,) * len(costs.draws),
    )
    monkeypatch.setattr("srs_eval.report.learner._answer_questions", lambda *_: make_answers()[:1])
    monkeypatch.setattr(
        "srs_eval.advice.questions.workload", lambda *_, **__: (stage for stage in [costs])
    )
    report = render_as(
        build_learner_report(
            off, Run.from_configurations(resolve_configurations("AVG")), Protocol()
        ),
        "md",
    )
    desired = "a desired retention of 90 % (this preset's)"
    assert f"With FSRS on and optimized, and {desired}" in report
    assert "If you keep SM-2, your cards take" in report
    assert "FSRS is off" not in report


def test_report_of_too_few_reviews_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    path = tmp_path / "collection.anki2"
    write_collection(simulate_learner(4, 300), path)
    done = run_in_process("export", path, "--models", "AVG,90%", "--md", "-", "--jobs", "0")
    assert done.returncode == 0, done.stderr
    assert "collection.anki2" in done.stdout.splitlines()[0]
    assert "Traceback" not in done.stderr


def test_parameters_to_copy_stand_in_the_report_once(nothing_asked: pytest.MonkeyPatch) -> None:
    w = tuple(0.5 + k for k in range(21))
    (optimize,) = (finding for finding in make_answers() if finding.recommendation == "optimize")
    answer = replace(optimize, subject="Words", parameters=w)

    def answers(_log: object, questions: Sequence[str], *_: object) -> list[object]:
        return [] if "day" in questions else [answer]

    nothing_asked.setattr("srs_eval.report.learner._answer_questions", answers)
    document = build_learner_report(simulate_learner(5, 300).log(), Run(), Protocol())
    text = render_as(document, "md")
    assert "| Words | optimize |" in text
    assert text.count("0.5000, 1.5000, 2.5000") == 1
    assert "<summary>Parameters for Words</summary>" in text
    assert render_as(document, "html").count("<pre>0.5000, 1.5000, 2.5000") == 1
