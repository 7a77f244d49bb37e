"""One preset or several, in English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srs_eval.advice.findings import Finding, Sharing, of
from srs_eval.advice.sentences import by_when, dots, listed, of_100
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted

_LINE: Mapping[str, str] = {
    "keep shared": "one line of parameters is enough for all",
    "split": "a line of its own for each is better",
    "pooled": "a line for each, drawn to each other",
}
_SENTENCE: Mapping[str, str] = {
    "keep shared": "Your {parts} forget alike: one set of parameters is enough.",
    "split": "Your {parts} forget differently: each needs parameters of its own.",
    "pooled": "Give each of your {parts} parameters that are drawn to each other.",
}


def in_line(findings: Sequence[Finding]) -> str:
    """ "one line of parameters is enough for all ●●●●● sure, 98 of 100"."""
    first = findings[0]
    if first.probability is None:
        return sentences(first)[0]
    return f"{_LINE[first.act]} {dots(first.probability)} {of_100(first.probability)}"


def sentences(finding: Finding) -> tuple[str, ...]:
    evidence = of(finding, Sharing)
    if evidence.parts == 1:
        return ("You have one preset with reviews. Keep it.",)
    parts = f"{evidence.parts} {evidence.part}s"
    if not evidence.differences:
        few = f"{counted(finding.reviews, 'review')} can be held out"
        return (f"Let your {parts} share parameters for now: {few}, too few to compare.",)
    assert finding.probability is not None
    sentence = _SENTENCE[finding.act].format(parts=parts)
    said = [f"{sentence[:-1]} ({of_100(finding.probability)})."]
    if finding.act == "pooled":
        said.append("That saves about 0.005 log loss if they differ and costs 0.0003 if not.")
    when = by_when(finding.missing)
    if when and finding.act == "pooled":
        said.append(f"Ask again {when}.")
    if len(evidence.groups) not in (1, evidence.parts) and evidence.groups:
        together = "; ".join(listed(each) for each in evidence.groups)
        said.append(
            f"By what each one's parameters predict of the others, these go together: {together}."
        )
    return tuple(said)


def tables(finding: Finding) -> tuple[Table, ...]:
    evidence = of(finding, Sharing)
    if not evidence.differences:
        return ()
    rows: list[tuple[Cell, ...]] = [
        (each.of, each.parameters, each.difference.reviews, each.difference, each.decision)
        for each in evidence.differences
    ]
    columns = ("reviews of", "parameters", "reviews", "minus shared", "decision")
    subject = "" if finding.subject == "all presets" else f"{finding.subject}: "
    made = [Table(f"{subject}Parameters of their own or one set for all", columns, tuple(rows))]
    if evidence.pairs:
        title = "Parameters of one preset on reviews of another"
        of_pairs = ("parameters of", "reviews of", "minus its own", "verdict")
        made.append(Table(title, of_pairs, evidence.pairs))
    return tuple(made)
