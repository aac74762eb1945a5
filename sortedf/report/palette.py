"""Colours of the report by name, for light and for dark paper."""

from __future__ import annotations

from typing import NamedTuple


class Tone(NamedTuple):
    """A colour on light paper (also in print) and on dark paper, each ``#rrggbb``."""

    light: str
    dark: str


PALETTE = {
    "ink": Tone("#1b1f24", "#e8eaed"),
    "muted": Tone("#57606a", "#a3adb8"),
    "grid": Tone("#dce1e6", "#343c45"),
    "paper": Tone("#fdfdfd", "#15191e"),
    "limit": Tone("#b3203d", "#ff8f9f"),
    "forbidden": Tone("#f3dfe2", "#40262c"),
    "accent": Tone("#0b62a9", "#6db3f2"),
    "accent-soft": Tone("#cfe1f1", "#1f3d57"),
    "line-0": Tone("#0b62a8", "#6db3f1"),
    "line-1": Tone("#c4500c", "#ff9a5c"),
    "line-2": Tone("#047a57", "#4fcfa5"),
    "line-3": Tone("#8a3ea1", "#d39be6"),
    "line-4": Tone("#8f6400", "#e6bd55"),
    "line-5": Tone("#a31f5a", "#f58fbd"),
    "line-6": Tone("#00758a", "#58cbe0"),
    "line-7": Tone("#5b5f66", "#b4bac2"),
    "class-0": Tone("#c6dbf0", "#bcdcf7"),
    "class-1": Tone("#84b2dc", "#7fb4e3"),
    "class-2": Tone("#3f7fba", "#447fb6"),
    "class-3": Tone("#123f70", "#234b78"),
    "shape-0": Tone("#7fb2dd", "#3f7cb0"),
    "shape-1": Tone("#f2b37c", "#b36a2c"),
    "shape-2": Tone("#86c9a6", "#348360"),
    "shape-3": Tone("#d5a3d9", "#85528c"),
    "shape-4": Tone("#e3cf78", "#8f7a26"),
    "shape-5": Tone("#ee9c9c", "#a84a50"),
    "shape-6": Tone("#82cad2", "#2c7f8a"),
    "shape-7": Tone("#b9bfc6", "#646c76"),
}
"""``line-*`` have at least 4.5:1 on their paper; ``class-*`` rise from small to large; ``shape-*``
are areas with an outline. No two colours for light paper are the same, which is how
:mod:`sortedf.report.svg` tells them apart.
"""

DASHES = ("", "7 3", "2 2.5", "9 3 2 3")
"""Of the lines 0-7, 8-15, ...: a dash pattern as in SVG."""

LINES = 8
SHAPES = 8


def line_style(number: int) -> tuple[str, str]:
    """Colour name and dash pattern of a curve; 32 different ones, then again from the first.

    Neighbours differ in both, so that a curve can be told without its colour.
    """
    return f"line-{number % LINES}", DASHES[(number + number // LINES) % len(DASHES)]
