"""The shell that all pages share: templates, styles, colours."""

from __future__ import annotations

from importlib import resources
from typing import Any

from sortedf.report.palette import PALETTE


def render(template: str, **values: Any) -> str:
    """Fill a template of this room, which extends ``base.html``, escaping what is not markup.

    ``values`` has the ``document``, with the ``version`` that made it, and what else it needs.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    files = resources.files("sortedf.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: (files / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        **values,
        light={name: tone.light for name, tone in PALETTE.items()},
        dark={name: tone.dark for name, tone in PALETTE.items()},
        css=Markup((files / "page.css").read_text("utf-8")),
    )


def inlined(name: str, title: str, text: str, drawings: list[Any]) -> dict[str, Any]:
    """Turn the drawings of a picture, a figure and its tips by paper, into elements of a page."""
    from sortedf.report.figures import PAPERS
    from sortedf.report.svg import inline

    return {
        paper.name: inline(figure, f"{name}-{paper.name}", title, text, tips)
        for paper, (figure, tips) in zip(PAPERS, drawings, strict=True)
    }
