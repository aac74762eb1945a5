"""The page of a report in headless Chromium: wide and narrow, light and dark, in print."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from run_folders import made_folder

import sortedf
from sortedf.cli.main import main
from sortedf.engine import published
from sortedf.proofs_check import overview

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

MEASURE = """
<script>
addEventListener("load", () => {
  const shown = e => e.getClientRects().length > 0;
  const box = e => e.getBoundingClientRect();
  const overlaps = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const pictures = [...document.querySelectorAll('svg[role="img"]')].filter(shown);
  const clashes = [];
  for (const picture of pictures) {
    const texts = [...picture.querySelectorAll("text")];
    texts.forEach((one, i) => texts.slice(0, i).forEach(other => {
      if (overlaps(box(one), box(other)))
        clashes.push([picture.id, one.textContent, other.textContent]);
    }));
  }
  const measured = {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    papers: [...new Set(pictures.map(p => p.parentElement.className))],
    pictures: pictures.length,
    flat: pictures.filter(p => box(p).width < 200 || box(p).height < 100).length,
    smallest: Math.min(...pictures.flatMap(p => [...p.querySelectorAll("text")].map(
      t => parseFloat(getComputedStyle(t).fontSize) * box(p).width / p.viewBox.baseVal.width
    ))),
    clashes: clashes,
    outside: [...document.body.querySelectorAll("p, h1, h2, li, figure, .scroll, summary")]
      .filter(shown).filter(e => box(e).right > innerWidth + 1).length,
    paper: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    curve: getComputedStyle(document.querySelector(".legend line")).stroke,
  };
  parent.postMessage(JSON.stringify(measured), "*");
});
</script>
"""


def browse(page: Path, *arguments: str, width: int = 1400, dark: bool = False) -> tuple[str, str]:
    """Open a page in a fresh profile without network; gives what is printed and the console."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={page.parent / 'profile'}",
        f"--window-size={width},1000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--enable-logging=stderr",
        "--v=0",
        *arguments,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout, "\n".join(re.findall(r".*CONSOLE.*", done.stderr))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of three plans of the packaged example."""
    folder = tmp_path_factory.mktemp("browser")
    paths = []
    for solver in ("fcfs", "svf", "exact-dp"):
        paths.append(str(folder / f"{solver}.json"))
        sortedf.write_plan(sortedf.solve(sortedf.example(), solver=solver), paths[-1])
    target = folder / "report.html"
    assert main(["report", *paths, "-o", str(target), "-q"]) == 0
    return target


# A window has a least width; a frame in it has none.
FRAME = """<!doctype html><title>frame</title>
<iframe src="measured.html" style="border: 0; width: {width}px; height: 900px"></iframe>
<script>
onmessage = event => {{ document.documentElement.dataset.measured = event.data; }};
</script>
"""


def measured(page: Path, width: int, dark: bool = False) -> dict[str, Any]:
    """Measure a copy of the page with every part unfolded, in a frame, by a script put into it."""
    text = re.sub(r"<meta http-equiv.*?>", MEASURE, page.read_text(), count=1)
    copy = page.with_name("measured.html")
    copy.write_text(text.replace("<details>", "<details open>"))
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width))
    dom, console = browse(frame, "--dump-dom", width=width + 100, dark=dark)
    assert console == ""
    (found,) = re.findall(r'data-measured="([^"]*)"', dom)
    result: dict[str, Any] = json.loads(unescape(found))
    return result


def test_no_word_on_the_console(page: Path) -> None:
    """The page loads without an error or a warning; one that has an error is noticed."""
    for dark in (False, True):
        dom, console = browse(page, "--dump-dom", dark=dark)
        assert console == ""
        assert dom.count('role="img"') == 2 * (4 + 2 * 3)
    broken = page.with_name("broken.html")
    broken.write_text(page.read_text().replace("</body>", "<script>none()</script></body>"))
    _, console = browse(broken, "--dump-dom")
    assert "Content Security Policy" in console


@pytest.mark.parametrize(
    ("width", "paper"), [(1400, "wide"), (701, "wide"), (390, "narrow"), (320, "narrow")]
)
def test_layout(page: Path, width: int, paper: str) -> None:
    """Nothing runs out of the window, one drawing of each picture shows, its labels are clear."""
    seen = measured(page, width)
    assert seen["width"] == width
    assert seen["scroll"] <= seen["width"]
    assert seen["outside"] == 0
    assert seen["papers"] == [paper]
    assert seen["pictures"] == 4 + 2 * 3
    assert seen["flat"] == 0
    assert seen["clashes"] == []
    assert seen["smallest"] >= 8


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of `sortedf prove` from few instances."""
    target = tmp_path_factory.mktemp("browser") / "proofs.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "INSTANCES", 60)
        patch.setattr(overview, "LARGER", 4)
        assert main(["prove", "-q", "-o", str(target)]) == 0
    return target


@pytest.mark.parametrize(("width", "paper"), [(1400, "wide"), (320, "narrow")])
def test_layout_of_the_proofs(proofs: Path, width: int, paper: str) -> None:
    """The page of the theorems keeps to the same rules."""
    seen = measured(proofs, width)
    assert seen["scroll"] <= seen["width"]
    assert seen["outside"] == 0
    assert seen["papers"] == [paper]
    assert seen["pictures"] >= 3
    assert seen["flat"] == 0
    assert seen["clashes"] == []
    assert seen["smallest"] >= 8


def test_light_and_dark(page: Path) -> None:
    """Paper, ink and curves are those of the scheme that the reader prefers."""
    light, dark = measured(page, 1400), measured(page, 1400, dark=True)
    for name in ("paper", "ink", "curve"):
        assert light[name] != dark[name]
    brightness = [sum(map(int, re.findall(r"\d+", seen["paper"])[:3])) for seen in (light, dark)]
    assert brightness[0] > 700
    assert brightness[1] < 120


def test_print(page: Path) -> None:
    """It prints to some pages, light ones whatever is preferred."""
    target = page.with_name("report.pdf")
    _, console = browse(page, f"--print-to-pdf={target}", dark=True)
    assert console == ""
    pdf = target.read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 30


@pytest.fixture(scope="module")
def validation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of `sortedf validate` for a run with a time series, calibrated on its half."""
    folder = tmp_path_factory.mktemp("validation")
    series = [f"{t}.0,{5 + t % 3},{t % 4},{40 + t}" for t in range(1, 9)]
    made_folder(folder / "run", 30, series=["t,running,waiting,kv_cache_pct", *series])
    target = folder / "validation.html"
    arguments = ["validate", str(folder / "run"), "--form", "plain", "-q", "-o", str(target)]
    assert main(arguments) == 0
    return target


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a run on the replay beside other orders, one of a long name."""
    folder = tmp_path_factory.mktemp("compared")
    sortedf.write_plan(sortedf.solve(sortedf.example(), solver="svf"), folder / "plan.json")
    step_times = next(iter(published()))
    told = ["run", str(folder / "plan.json"), "-o", str(folder / "run"), "-q"]
    assert main([*told, "--steptime", step_times, "--output-error", "0.3"]) == 0
    target = folder / "run.html"
    orders = ["--against", "fcfs,quantile-greedy,longest,svf"]
    assert main(["validate", str(folder / "run"), *orders, "-q", "-o", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of all policies side by side, on two seeds; one collapses."""
    target = tmp_path_factory.mktemp("simulated") / "policies.html"
    told = ["simulate", "--load", "1", "--requests", "150", "--seeds", "2", "-q"]
    assert main([*told, "-o", str(target)]) == 0
    return target


@pytest.mark.parametrize(("width", "paper"), [(1400, "wide"), (320, "narrow")])
@pytest.mark.parametrize(
    ("which", "pictures"), [("validation", 3), ("compared", 5), ("simulated", 4)]
)
def test_layout_of_other_pages(
    which: str, pictures: int, width: int, paper: str, request: pytest.FixtureRequest
) -> None:
    """The pages of predicted against realized and of policies keep to the same rules."""
    seen = measured(request.getfixturevalue(which), width)
    assert seen["scroll"] <= seen["width"]
    assert seen["outside"] == 0
    assert seen["papers"] == [paper]
    assert seen["pictures"] == pictures
    assert seen["flat"] == 0
    assert seen["clashes"] == []
    assert seen["smallest"] >= 8
