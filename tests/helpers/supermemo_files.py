"""SuperMemo's export of repetitions, written as the program writes it."""

from __future__ import annotations

from datetime import date, timedelta

Repetition = tuple[int, int, int, int, int, int | None]
"""Item, day, number of the repetition, lapses, grade and expected forgetting index."""

FIRST_DATE = date(2022, 1, 1)
"""The date of day 0."""

HISTORY: list[Repetition] = [
    (4, 0, 1, 0, 8, 99),
    (7, 0, 1, 0, 8, 99),
    (4, 1, 2, 0, 5, 6),
    (4, 4, 3, 0, 2, 10),
    (7, 6, 2, 0, 3, None),
    (4, 30, 1, 1, 3, 25),
    (7, 50, 3, 0, 4, 9),
]


def format_repetition(repetition: Repetition, hour: str = "17.75") -> str:
    """Format the line of one repetition."""
    item, day, number, lapses, grade, forgetting_index = repetition
    date = FIRST_DATE + timedelta(day)
    line = f"ElNo={item} Rep={number} Laps={lapses} Date={date:%d.%m.%Y} Hour={hour} Int=3 "
    line += f"Grade={grade} Priority=7.2"
    if forgetting_index is not None:
        line += f" Difficulty=0.1 expFI={forgetting_index}"
    return line


def format_history(repetitions: list[Repetition]) -> str:
    """Format a whole export: item by item, the newest repetition first."""
    lines = ["Repetition history backup (SuperMemo 18)", "Date=Aug 11, 2023, Fri, 12:18"]
    for item in sorted({repetition[0] for repetition in repetitions}):
        lines.append(f"Item #{item}")
        for repetition in reversed(repetitions):
            if repetition[0] == item:
                lines.append(format_repetition(repetition))
        lines.append("")
    return "\r\n".join(lines)
