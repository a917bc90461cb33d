"""Lists of systems: FILE#SYSTEM is the system over what all of them have."""

from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.config.systems import read_systems

LIST = """\
include: all.yaml
model: {units: 5}
systems:
  base:
  gru: units/gru.yaml
  both: [units/gru.yaml, more.yaml]
  deeper:
    include: list.yaml#gru
    model: {layers: 7}
hypotheses:
  - deeper = deeper < base = base
"""


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    (tmp_path / "all.yaml").write_text("model: {layers: 2, units: 4}\n")
    (tmp_path / "more.yaml").write_text("model: {units: 6}\n")
    (tmp_path / "list.yaml").write_text(LIST)
    return tmp_path / "list.yaml"


@pytest.mark.parametrize(
    ("system", "unit", "layers", "units"),
    [
        *(("base", "li-bru", 2, 5), ("gru", "gru", 2, 5), ("both", "gru", 2, 6)),
        ("deeper", "gru", 7, 5),
    ],
)
def test_a_system_stands_over_what_all_have(
    system: str, unit: str, layers: int, units: int, listed: Path
) -> None:
    model = load([Path(f"{listed}#{system}")], ["model.bidirectional=true"]).model
    assert (model.unit, model.layers, model.units) == (unit, layers, units)


def test_systems_and_hypotheses_are_read_in_their_order(listed: Path) -> None:
    systems, ((hypothesis, where),) = read_systems(listed)
    assert systems == ["base", "gru", "both", "deeper"]
    assert hypothesis == "deeper = deeper < base = base"
    assert where == f"{listed}, line 11"


@pytest.mark.parametrize(
    ("content", "system", "message"),
    [
        (LIST, "#lstm", r"list.yaml: has no system lstm; name one as .*#base; there are base gru"),
        (LIST, "", r"list.yaml: is a list of systems; name one as .*list.yaml#base"),
        ("model: {layers: 1}\n", "#gru", "list.yaml: has no system gru; systems is a mapping"),
        ("systems: [gru]\n", "#gru", "list.yaml: has no system gru; systems is a mapping"),
        ("systems:\n  a: {include: list.yaml#a}\n", "#a", "list.yaml#a: includes itself"),
        ("systems:\n  a:\n    model: {layer: 1}\n", "#a", "list.yaml, line 3"),
        ("systems:\n  a: 3\n", "#a", "include is a file name or a list of them"),
    ],
)
def test_what_is_no_system_is_refused(
    content: str, system: str, message: str, listed: Path
) -> None:
    listed.write_text(content)
    with pytest.raises(InputError, match=message):
        load([Path(f"{listed}{system}")])


@pytest.mark.parametrize(
    "content", ["", "[]", "systems:\n", "systems: {}\n", "systems: {a: }\nhypotheses: a < b\n"]
)
def test_what_is_no_list_is_refused(content: str, listed: Path) -> None:
    listed.write_text(content)
    with pytest.raises(InputError, match=r"list.yaml: (systems|hypotheses) is a"):
        read_systems(listed)


def test_a_file_of_that_name_is_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml#b").write_text("model: {layers: 3}\n")
    assert load([tmp_path / "a.yaml#b"]).model.layers == 3
