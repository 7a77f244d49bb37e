"""Plan a session of `soak.py`, from its seed alone, so that it can be replayed.

A plan is a list of steps. Each is something that a terminal sends in one burst, so that the app
receives all of it before it has reacted to the first part.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

DAMAGED = "damaged"
"""Part of the names of files that cannot be opened."""

Kind = Literal["pilot", "terminal"]
Button = Literal["left", "right"]

CHARACTERS = {
    "slash": "/",
    "question_mark": "?",
    "full_stop": ".",
    "tilde": "~",
    "space": " ",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}
"""Keys whose name is not their character."""

SEQUENCES = {
    "escape": "\x1b",
    "enter": "\r",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "delete": "\x1b[3~",
    "backspace": "\x7f",
    "f1": "\x1bOP",
    "ctrl+c": "\x03",
    "ctrl+o": "\x0f",
    "ctrl+p": "\x10",
    "ctrl+q": "\x11",
    "ctrl+t": "\x14",
}
"""Keys without a character, and the sequences that a terminal sends for them."""

_RANDOM_KEYS = (
    *"cxytbpnRvlrdwmiPuofeazhjks123459",
    *CHARACTERS,
    *(key for key in SEQUENCES if key not in ("ctrl+c", "ctrl+o", "ctrl+q")),
)
_MOVES = ("up", "down", "pageup", "pagedown", "home", "end", "tab", "escape", "enter", "space")
_PATHS: tuple[tuple[str, ...], ...] = (
    ("m", "enter", "e", "l"),
    ("m", "enter", "n", "p", "c", "p", "n", "b", "t"),
    ("m", "v", "s", "less_than_sign", "down", "enter", "greater_than_sign", "up", "enter"),
    ("m", "space", "down", "space", "v"),
    ("m", "R", "space", "enter", "p"),
    ("m", "R", "c", "r"),
    ("m", "slash", "f", "s", "r", "enter", "down", "enter"),
    ("m", "f", "space", "down", "space", "escape"),
    ("m", "o", "o", "o"),
    ("i", "n", "enter"),
    ("i", "n", "n", "down", "enter"),
    ("i", "R", "m"),
    ("P", "space", "down", "space", "enter"),
    ("P", "space", "enter", "w"),
    ("w",),
    ("w", "escape", "w"),
    ("u", "n", "n", "p", "y"),
    ("1", "escape", "2", "escape", "3", "n", "y"),
    ("x", "enter", "enter"),
    ("x", "down", "down", "enter"),
    ("x", "tab", "tab", "space", "enter"),
    ("c", "r"),
    ("ctrl+p", "h", "e", "l", "p", "enter"),
    ("ctrl+p", "t", "h", "e", "m", "e", "enter", "down", "enter"),
    ("ctrl+p", "m", "o", "d", "enter"),
    ("ctrl+p", "escape"),
    ("question_mark", "escape"),
    ("ctrl+t", "ctrl+t"),
)
"""Paths through the screens that random keys would seldom find."""

_PASTED = (
    "",
    "/",
    "~",
    "a line\nand another\r\n\ttab",
    "x" * 5_000,
    "日本語 العربية e\u0301 \U0001f600",
    "'/a folder/b.colpkg' ",
    "file:///a%20folder/b.colpkg",
    "[red]markup[/red] \\[",
    "\x00\x07",
)
_ENDS: dict[Kind, tuple[str, ...]] = {
    "pilot": ("q", "ctrl+q", "ctrl+c"),
    "terminal": ("q", "ctrl+q", "ctrl+c", "closed", "closed without a signal", "SIGHUP", "SIGTERM"),
}
_PAUSES_S = (0.0, 0.0, 0.0, 0.02, 0.1, 0.3, 1.0)
_BAD_BYTES = (b"\xff\xfe", b"caf\xe9", b"\x1b[M \xf0\xf0", b"\x1b[<0;3", b"\x1b[200~\xe9", b"\x9b")
"""Bytes from terminals that are not set to UTF-8, use older notations, or cut a sequence short."""


@dataclass(frozen=True)
class Keys:
    """Keys by Textual's names, one immediately after another."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Click:
    """Clicks at one position."""

    x: int
    y: int
    times: int
    button: Button = "left"


@dataclass(frozen=True)
class Drag:
    """A drag with the mouse: pressed at the first position, released at the last."""

    positions: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Scroll:
    """Turns of the wheel at one position."""

    x: int
    y: int
    times: int
    down: bool


@dataclass(frozen=True)
class Paste:
    """Text from the clipboard."""

    text: str


@dataclass(frozen=True)
class BadBytes:
    """Bytes that are not UTF-8, or an incomplete sequence; only a terminal can send them."""

    data: bytes


@dataclass(frozen=True)
class Resize:
    """A change of the terminal's size."""

    width: int
    height: int


@dataclass(frozen=True)
class KillWorker:
    """The death of one of the app's worker processes, as when memory runs out."""


@dataclass(frozen=True)
class Pause:
    """A pause without any input."""

    seconds: float


Sent = Keys | Click | Drag | Scroll | Paste | BadBytes
Step = Sent | Resize | KillWorker | Pause


@dataclass(frozen=True)
class Plan:
    """One session from its start to its end."""

    seed: int
    kind: Kind
    path: Path | None  # the history to open first; None: the app starts without one
    size: tuple[int, int]
    steps: tuple[Step, ...]
    end: str  # exit: by a key, by a signal, or by closing the terminal


def make_plan(seed: int, histories: Sequence[Path], seconds: float) -> Plan:
    """Return the session of a seed.

    Args:
        seed: Even seeds run in a pseudo-terminal, odd ones under Textual's pilot.
        histories: The files to choose from; a replay needs the same ones in the same order.
        seconds: The total length of the pauses of all steps.
    """
    chance = random.Random(seed)
    kind: Kind = "pilot" if seed % 2 else "terminal"
    path = None if chance.random() < 0.1 else _draw_history(chance, histories)
    size = _draw_size(chance)
    maker = _StepMaker(chance, histories, size)
    steps: list[Step] = [Pause(chance.choice((0.0, 1.0, 5.0, 5.0)))]
    remaining = seconds
    while remaining > 0:
        steps += maker.make_steps()
        pause = chance.choice(_PAUSES_S)
        steps.append(Pause(pause))
        remaining -= pause + 0.05
    return Plan(seed, kind, path, size, tuple(steps), chance.choice(_ENDS[kind]))


def _draw_history(chance: random.Random, histories: Sequence[Path]) -> Path:
    """Draw a file, rarely a damaged one."""
    damaged = [path for path in histories if DAMAGED in path.name]
    sound = [path for path in histories if DAMAGED not in path.name]
    return chance.choice(damaged if damaged and chance.random() < 0.15 else sound)


def _draw_size(chance: random.Random) -> tuple[int, int]:
    """Draw columns and lines of a terminal: a usual size, one too small to use, or any other."""
    kind = chance.random()
    if kind < 0.6:
        return chance.choice(((80, 24), (100, 30), (120, 40), (160, 48), (60, 16)))
    if kind < 0.75:
        return chance.choice(((59, 16), (60, 15), (1, 1), (20, 5), (200, 8), (30, 50)))
    return chance.randint(60, 220), chance.randint(16, 60)


class _StepMaker:
    """Draws one burst after another and keeps track of the terminal's size."""

    def __init__(
        self, chance: random.Random, histories: Sequence[Path], size: tuple[int, int]
    ) -> None:
        self._chance = chance
        self._histories = histories
        self._size = size

    def make_steps(self) -> list[Step]:
        """Draw the next steps."""
        makers = {
            self._press_random_keys: 20,
            self._follow_path: 20,
            self._click: 22,
            self._drag: 6,
            self._scroll: 6,
            self._resize: 8,
            self._paste: 2,
            self._send_bad_bytes: 1,
            self._open_file: 4,
            self._kill_worker: 1,
        }
        (make,) = self._chance.choices(list(makers), weights=list(makers.values()))
        return make()

    def _press_random_keys(self) -> list[Step]:
        number = self._chance.choice((1, 1, 2, 5, 20))
        keys = self._chance.choice((_RANDOM_KEYS, _RANDOM_KEYS, _MOVES))
        return [Keys(tuple(self._chance.choices(keys, k=number)))]

    def _follow_path(self) -> list[Step]:
        """Follow a path from the answers, in one burst or key by key."""
        path = self._chance.choice(_PATHS)
        escapes = self._chance.choice((0, 0, 1, 4))
        keys = ["escape" for _ in range(escapes)]
        keys += path
        if self._chance.random() < 0.5:
            return [Keys(tuple(keys))]
        pause = Pause(self._chance.choice((0.02, 0.2)))
        steps: list[Step] = []
        for key in keys:
            steps += [Keys((key,)), pause]
        return steps

    def _draw_position(self) -> tuple[int, int]:
        """Return a position, sometimes in the last line, where the keys are, including Quit."""
        width, height = self._size
        x = self._chance.randrange(width)
        if self._chance.random() < 0.08:
            return x, height - 1
        return x, self._chance.randrange(height)

    def _click(self) -> list[Step]:
        x, y = self._draw_position()
        times = self._chance.choice((1, 1, 2, 3))
        button: Button = "right" if self._chance.random() < 0.05 else "left"
        before: list[Step] = []
        if self._chance.random() < 0.15:  # beside or on the palette
            before = [Keys(("ctrl+p",)), Pause(self._chance.choice((0.0, 0.3)))]
        return [*before, Click(x, y, times, button)]

    def _drag(self) -> list[Step]:
        number = self._chance.randint(2, 12)
        drag = Drag(tuple(self._draw_position() for _ in range(number)))
        if self._chance.random() < 0.3:  # over a notification
            return [Keys(("escape", "escape", "y")), drag]
        return [drag]

    def _scroll(self) -> list[Step]:
        x, y = self._draw_position()
        return [Scroll(x, y, self._chance.choice((1, 3, 20)), self._chance.random() < 0.6)]

    def _resize(self) -> list[Step]:
        steps: list[Step] = []
        for _ in range(self._chance.choice((1, 1, 2, 6))):
            self._size = _draw_size(self._chance)
            steps.append(Resize(*self._size))
        return steps

    def _paste(self) -> list[Step]:
        path = str(_draw_history(self._chance, self._histories))
        return [Paste(self._chance.choice((*_PASTED, path)))]

    def _send_bad_bytes(self) -> list[Step]:
        return [BadBytes(self._chance.choice(_BAD_BYTES))]

    def _open_file(self) -> list[Step]:
        """Close the file and open another one by its path."""
        path = _draw_history(self._chance, self._histories)
        close = Keys(("escape", "escape", "escape", "escape", "ctrl+o", "y"))
        return [close, Pause(0.5), Paste(str(path)), Keys(("enter",)), Pause(1.0)]

    def _kill_worker(self) -> list[Step]:
        return [KillWorker()]


def encode_for_terminal(step: Sent) -> bytes:
    """Return the bytes that a terminal sends for a step."""
    if isinstance(step, BadBytes):
        return step.data
    if isinstance(step, Keys):
        text = "".join(SEQUENCES.get(name) or CHARACTERS.get(name, name) for name in step.names)
    elif isinstance(step, Click):
        code = 0 if step.button == "left" else 2
        pressed = _format_mouse(code, step.x, step.y)
        released = _format_mouse(code, step.x, step.y, "m")
        text = (pressed + released) * step.times
    elif isinstance(step, Drag):
        pressed = _format_mouse(0, *step.positions[0])
        moves = "".join(_format_mouse(32, *position) for position in step.positions[1:])
        released = _format_mouse(0, *step.positions[-1], "m")
        text = pressed + moves + released
    elif isinstance(step, Scroll):
        text = _format_mouse(65 if step.down else 64, step.x, step.y) * step.times
    else:
        text = f"\x1b[200~{step.text}\x1b[201~"
    return text.encode()


def _format_mouse(code: int, x: int, y: int, final: Literal["M", "m"] = "M") -> str:
    """Return an event in SGR notation, whose positions count from 1."""
    return f"\x1b[<{code};{x + 1};{y + 1}{final}"
