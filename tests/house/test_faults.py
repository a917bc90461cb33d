"""Every row of the fault table in attacks/faults.md, made to happen."""

from pathlib import Path

import pytest

from tests.attacks.fault_table import PAGE, facts_of, meet, rows_of
from tests.attacks.faults import FAULTS, Fault
from tests.attacks.laboratory import build, copy


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("faults") / "laboratory")


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))
FACTS = {facts_of(row) for row in ROWS}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.broken}, {fault.verb}")
def test_what_the_page_says_happens(fault: Fault, laboratory: Path, tmp_path: Path) -> None:
    row = meet(fault, copy(laboratory, tmp_path / "copy"))
    assert facts_of(row.line()) in FACTS
    assert bool(row.complaint) == (row.status == 1)
    assert len(row.complaint) < 300


def test_the_page_tells_of_these_faults_and_of_no_others() -> None:
    assert len(ROWS) == len(set(ROWS)) == len(FAULTS) > 40
