"""A parsed page, and what every page of the program has to keep to."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sortedf.report.palette import PALETTE

VOID = {"meta", "link", "br", "wbr", "img", "input", "hr"}


class Element:
    """An element of a parsed page: its attributes, its text, what is in it."""

    def __init__(self, name: str, attributes: dict[str, str | None]) -> None:
        self.name = name
        self.attributes = attributes
        self.parts: list[Element | str] = []

    @property
    def text(self) -> str:
        """All text within."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def children(self) -> list[Element]:
        """The elements directly within."""
        return [part for part in self.parts if isinstance(part, Element)]

    def all(self, name: str | None = None) -> list[Element]:
        """Every element within, of a name if given."""
        found = [c for c in self.children if name in (None, c.name)]
        return found + [e for c in self.children for e in c.all(name)]


class Tree(HTMLParser):
    """Builds the tree of a page; refuses what is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element; a repeated attribute is a fault."""
        assert len(dict(attrs)) == len(attrs)
        element = Element(tag, dict(attrs))
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element that is closed at once, as SVG has them."""
        self.open[-1].parts.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.open[-1].parts.append(data)


def check_pictures(tree: Element) -> int:
    """See that drawings have a title and a description, on two papers; gives their number."""
    ids = {e.attributes["id"]: e for e in tree.all() if "id" in e.attributes}
    pictures = 0
    for svg in tree.all("svg"):
        if svg.attributes.get("aria-hidden") == "true":
            continue
        assert svg.attributes["role"] == "img"
        title, description = (ids[name] for name in str(svg.attributes["aria-labelledby"]).split())
        assert title in svg.children
        assert description in svg.children
        assert len(title.text) > 5
        assert len(description.text) > 40
        assert re.search(r"\d", description.text)
        pictures += 1
    for figure in tree.all("figure"):
        papers = [str(e.attributes["class"]) for e in figure.children if e.name == "div"]
        assert papers == ["wide", "narrow"]
        assert any(e.name == "figcaption" and e.text for e in figure.children)
    return pictures


def check_tables(tree: Element) -> int:
    """See that tables have captions, scopes and full rows, in regions; gives their number."""
    for table in tree.all("table"):
        assert table.all("caption")[0].text
        assert all(e.attributes["scope"] in ("col", "row") for e in table.all("th"))
        assert len({len(row.children) for row in table.all("tr")}) == 1
    for region in tree.all("div"):
        if region.attributes.get("class") == "scroll":
            assert region.attributes["tabindex"] == "0"
            assert region.attributes["aria-label"]
    return len(tree.all("table"))


def check_nothing_outside(text: str, tree: Element) -> None:
    """See that links and references stay within the page, and that nothing runs."""
    assert not re.search(r"https?:|//[a-z]|@import", text)
    assert not tree.all("script")
    ids = [e.attributes["id"] for e in tree.all() if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for element in tree.all():
        assert "src" not in element.attributes
        target = element.attributes.get("href")
        if target is not None and target != "data:,":
            assert target.startswith("#")
            assert target[1:] in ids
        assert not any(name.startswith("on") for name in element.attributes)
    for name in re.findall(r"url\(([^)]*)\)", text):
        assert name[0] == "#"
        assert name[1:] in ids
    (policy,) = [e for e in tree.all("meta") if "http-equiv" in e.attributes]
    assert str(policy.attributes["content"]).startswith("default-src 'none';")


def check_colours(text: str) -> None:
    """See that pictures name no colour: each is a variable that both papers define."""
    style, _, body = text.partition("</style>")
    assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"<data.*?</data>|[0-9a-f]{64}", "", body))
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", text)) - {"font"}
    assert used <= PALETTE.keys()
    light, _, dark = style.partition("prefers-color-scheme: dark")
    for name in used:
        assert f"--{name}: {PALETTE[name].light};" in light
        assert f"--{name}: {PALETTE[name].dark};" in dark
