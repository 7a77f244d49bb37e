"""Tables in LaTeX, for \\input: with booktabs, siunitx for figures, adjustbox for width."""

from __future__ import annotations

import re

from srs_eval.report.document import Cell, Column, Figure, Table, written

_SIGNS = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"−": "$-$", "±": r"$\pm$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "√": r"$\surd$"},
    **{"<": "$<$", ">": "$>$", "–": "--"},
}
_FIGURE = re.compile(r"([−+]?)(\d+)(?:\.(\d+))?(?:±([\d.]+))?")
_SETTINGS = "separate-uncertainty, table-align-uncertainty"
_BOLD = ", mode=text, detect-weight"  # what bold figures need


def latex(table: Table) -> str:
    """A table that floats, with its caption; the best of a column is bold."""
    columns = [k for k, each in enumerate(table.columns) if each.in_papers]
    kinds = [_kind(table, k) for k in columns]
    heads = [f"{{{_escaped(table.columns[k].title)}}}" for k in columns]
    shown = list(zip(columns, kinds, strict=True))
    rows = [[_cell(row[k], table.columns[k], kind) for k, kind in shown] for row in table.rows]
    strong = any(isinstance(cell, Figure) and cell.strong for row in table.rows for cell in row)
    settings = _SETTINGS + _BOLD * strong
    lines = [
        r"% needs \usepackage{adjustbox,booktabs,siunitx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escaped(f'{table.title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\sisetup{{{settings}}}",
        r"\begin{adjustbox}{max width=\linewidth}",
        rf"\begin{{tabular}}{{{' '.join(kinds)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(f"{' & '.join(each)} \\\\" for each in rows),
        *(r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}", r"\end{table}"),
    ]
    return "\n".join(lines) + "\n"


def _kind(table: Table, place: int) -> str:
    """How a column is aligned: by the decimal points of its figures, where it has nothing else."""
    column = table.columns[place]
    if not table.right[place]:
        return "l"
    found = [_FIGURE.fullmatch(_plain(row[place], column)) for row in table.rows]
    known = [each for each in found if each]
    figures = (row[place] for row in table.rows)
    if not known or any(isinstance(each, Figure) and each.ends for each in figures):
        return "r"
    sign = "-" if any(each[1] for each in known) else ""
    whole, decimals = (max(len(each[k] or "") for each in known) for k in (2, 3))
    digits = max(len((each[4] or "").replace(".", "").lstrip("0")) for each in known)
    return f"S[table-format={sign}{whole}.{decimals}{f'({digits})' if digits else ''}]"


def _plain(cell: Cell, column: Column) -> str:
    return str(cell) if isinstance(cell, int) else written(cell, column)


def _cell(cell: Cell, column: Column, kind: str) -> str:
    text = _plain(cell, column)
    if kind[0] != "S":
        return _escaped(text)
    if not _FIGURE.fullmatch(text):
        return f"{{{_escaped(text)}}}"
    bold = r"\bfseries " if isinstance(cell, Figure) and cell.strong else ""
    return bold + text.replace("−", "-").replace("±", r" \pm ")


def _escaped(text: str) -> str:
    return "".join(_SIGNS.get(each, each) for each in text).replace(r" \%", r"~\%")
