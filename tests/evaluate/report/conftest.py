"""What the tests of reports ask for."""

from pathlib import Path

import pytest

from bayes_asr.evaluate.report.runs import ReportedSystem, find_systems
from tests.support.report_runs import make_run


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three systems: a <b>bold</b> name with two seeds, and two others."""
    out = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        make_run(out / "li & <bru>" / f"seed{seed}", 0.25, seed)
    make_run(out / "gru" / "seed1", 0.45)
    make_run(out / "lstm" / "seed1", 0.3, 2)
    return out


@pytest.fixture
def systems(out: Path) -> list[ReportedSystem]:
    return find_systems([out])


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figure files, which the page does not show."""
    monkeypatch.setattr("bayes_asr.evaluate.report.page.find_spec", lambda name: None)
