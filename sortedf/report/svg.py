"""A matplotlib figure as SVG within a page: themed by CSS, with a text alternative, self-contained.

Every colour becomes a CSS variable of the palette, so that one drawing serves light paper, dark
paper and print; ids are made unique in the page; nothing refers to anything outside.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from sortedf.report.palette import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "'DejaVu Sans'"

_VARIABLES = {tone.light: f"var(--{name})" for name, tone in PALETTE.items()}
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_OPEN = re.compile(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>')
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_EMPTY = re.compile(r"<defs>\s*</defs>\s*|<defs/>\s*")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b(?=[;\"])")
_NUMBER = re.compile(r"-?\d+\.\d+")
_PATH = re.compile(r'(?<= d=")[^"]+')
_ID = re.compile(r'(?<= id=")(?=[^"])')
_LINK = re.compile(r'(?<=url\(#)|(?<=href="#)')
_TIPPED = re.compile(r'<g id="tip-([0-9]+)">(\s*<path [^>]*?)/>')


def inline(
    figure: Figure, name: str, title: str, description: str, tips: Mapping[int, str] | None = None
) -> Markup:
    """Turn a figure into an ``<svg role="img">`` element.

    Parameters
    ----------
    figure
        Drawn in colours of the palette for light paper only, one SVG unit a point.
    name
        Distinct in the page; letters, digits and hyphens.
    title, description
        What it shows, and what is to be seen in it.
    tips
        What to show over the artist whose gid is ``tip-K``.

    Raises
    ------
    KeyError
        For a colour that is not of the palette.
    """
    import matplotlib as mpl

    text = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name}
    with mpl.rc_context(settings):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=metadata, dpi=72)
    svg = _DROPPED.sub("", _HEAD.sub("", text.getvalue()))
    svg = _EMPTY.sub("", svg)
    svg = _COLOR.sub(lambda match: _VARIABLES[match[0].lower()], svg)
    svg = _PATH.sub(lambda path: " ".join(_NUMBER.sub(_short, path[0]).split()), svg)
    svg = re.sub(r"font: ([^;\"]*?px) [^;\"]*", r"font: \1 var(--font)", svg)
    svg = svg.replace("xlink:href=", "href=")
    if tips:
        svg = _TIPPED.sub(lambda tip: _tipped(tip, tips), svg)
    svg = _ID.sub(f"{name}-", svg)
    svg = _LINK.sub(f"{name}-", svg)
    head = Markup(
        '<svg role="img" aria-labelledby="{name}-title {name}-desc" {box}>'
        '<title id="{name}-title">{title}</title><desc id="{name}-desc">{desc}</desc>'
    )
    opened = _OPEN.match(svg)
    assert opened is not None
    return head.format(name=name, box=Markup(opened[1]), title=title, desc=description) + Markup(
        re.sub(r"\n\s*", "\n", svg[opened.end() :])
    )


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _tipped(match: re.Match[str], tips: Mapping[int, str]) -> str:
    return f"<g>{match[2]}><title>{escape(tips[int(match[1])])}</title></path>"
