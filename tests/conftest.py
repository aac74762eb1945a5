"""What tests of several rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests go by iterations, not by seconds.
settings.register_profile("sortedf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sortedf")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of public workloads and hard inputs beside the repository; skipped where absent."""
    folder = Path(os.environ.get("SORTEDF_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip("the folder of shared workloads is not here")
    return folder


@pytest.fixture(scope="session")
def cases(shared: Path) -> Path:
    """Folder of inputs that broke neighbouring tools; skipped where absent."""
    folder = shared / "cases"
    if not folder.is_dir():
        pytest.skip("the folder of cases is not here")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is asked of the real engine; the full counts are 3,000 and 150."""
    group = parser.getgroup("engine", "differential tests against vLLM")
    group.addoption("--engine-workloads", type=int, default=300, metavar="N")
    group.addoption("--engine-runs", type=int, default=15, metavar="N")
