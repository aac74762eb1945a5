"""The package as a whole: its public names, its layers, and what its wheel holds."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sortedf

ROOT = Path(__file__).parents[1]


def test_all_is_what_is_exported() -> None:
    """Every name of __all__ exists, and __all__ is sorted without repeats."""
    assert sortedf.__all__ == sorted(set(sortedf.__all__))
    for name in sortedf.__all__:
        assert getattr(sortedf, name) is not None
    assert set(dir(sortedf)) == set(sortedf.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        sortedf.nothing  # noqa: B018


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    """The imports under TYPE_CHECKING name just what the lazy table does."""
    tree = ast.parse((ROOT / "sortedf" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names | {"__version__"} == set(sortedf.__all__)


def test_import_is_lazy() -> None:
    """`import sortedf` loads neither numpy nor numba nor matplotlib."""
    code = "import sortedf, sys; print({'numpy', 'numba', 'matplotlib'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_root_links_lead_into_the_package() -> None:
    """The doors at the root are relative links to rooms that exist."""
    for name in ("solvers", "instances", "lp", "proofs_check"):
        link = ROOT / name
        assert link.is_symlink()
        assert link.readlink() == Path("sortedf") / name
        assert (link / "__init__.py").is_file()


def test_wheel_holds_every_package_and_nothing_else(tmp_path: Path) -> None:
    """The wheel has all modules and data of sortedf, and only `sortedf` for site-packages.

    The sdist, from which it is built, leaves the links out.
    """
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sortedf").rglob("*")
        if path.is_file() and path.suffix in (".py", ".csv", ".typed", ".html", ".css", ".json")
    }
    packed = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert packed == expected
    (sdist,) = tmp_path.glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tzf", sdist], capture_output=True, text=True, check=True)
    tops = {line.split("/")[1] for line in listed.stdout.split() if "/" in line}
    assert not tops & {"solvers", "instances", "lp", "proofs_check", ".venv"}
    assert {"sortedf", "pyproject.toml", "README.md", "LICENSE"} <= tops


def test_every_room_is_in_the_layers() -> None:
    """Each room of the package stands in the import contract, so that none escapes it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    named = {name.strip() for layer in layers for name in layer.split("|")}
    rooms = {
        f"sortedf.{path.stem}"
        for path in (ROOT / "sortedf").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists())
        and path.stem not in ("__init__", "__main__")
    }
    assert named == rooms


def test_the_version_is_the_same_everywhere() -> None:
    """CITATION.cff names the version of the package."""
    assert f"version: {sortedf.__version__}\n" in (ROOT / "CITATION.cff").read_text()
