"""Units of somebody's own file: found where the environment says, and nowhere else."""

import hashlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from bayes_asr import load
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.catalogue import check_unit
from bayes_asr.config.merge import load_section
from bayes_asr.evaluate.score.unlike_runs import describe_unlike_seeds
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.units.cell import build_cell, find_cell
from bayes_asr.train.components import architecture
from tests.support.archives import one_line
from tests.support.places import CONF
from tests.support.small_corpus import settings

LEAKY = '''
from bayes_asr.nn.units.cell import ActivatedCell, Cell


class Leaky(Cell):
    """h_t = (h_{t-1} + tanh a_t) / 2."""

    def forward(self, a, state, mask):
        return ((state[0] + self.drop(a.select(-2, 0).tanh(), mask)) / 2,)


class Activated(ActivatedCell):
    """Its options are not said."""


class Stranger:
    """No cell."""
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(LEAKY)
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    monkeypatch.setenv("BAYES_ASR_UNITS", str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("external_units_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_unit_of_ones_own_is_a_cell(folder: Path) -> None:
    cell = build_cell("mine:Leaky", 3, 1, {})
    a, h = torch.randn(2, 1, 1, 3), torch.randn(2, 1, 3)
    torch.testing.assert_close(cell(a, (h,), None)[0], (h + a[:, :, 0].tanh()) / 2)
    assert type(build_cell("mine:Leaky", 3, 1, {})) is type(cell), "its file is read once"
    assert "mine" not in sys.modules


def test_its_class_says_whether_it_computes_probabilities(
    folder: Path,
) -> None:
    text = "from bayes_asr.nn.units.bayesian import LiBRU\n\n\nclass Mine(LiBRU):\n    pass\n"
    (folder / "heir.py").write_text(text)
    for unit, fits in (("heir:Mine", True), ("mine:Leaky", False)):
        model = load_section("model", [], [f"model.unit={unit}", "model.hand_on=prob"])
        plan = architecture(model, {"features": 3}, {"pdfs": 2})
        with nullcontext() if fits else pytest.raises(InputError, match="no probabilities"):
            AcousticModel(**plan)


def test_nothing_is_run_that_the_environment_does_not_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration or a checkpoint of somebody else names a module of the working directory."""
    (tmp_path / "evil.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("BAYES_ASR_UNITS")
    assert check_unit("evil:Unit", {}).options == {}, "names alone are checked"
    with pytest.raises(InputError) as raised:
        build_cell("evil:Unit", 3, 1, {})
    one_line(raised, "unit is evil:Unit", "set BAYES_ASR_UNITS to the folder of evil.py")


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ("absent:Leaky", "there is no {folder}/absent.py; BAYES_ASR_UNITS names its folder"),
        ("mine:Absent", "{folder}/mine.py has no Absent"),
        ("mine:Stranger", "no subclass of bayes_asr.nn.units.cell.Cell"),
        ("mine:Activated", "whose class takes units and sets: "),
        (
            "broken:Unit",
            "{folder}/broken.py: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("../mine:Leaky", "unit is ../mine:Leaky; known units: rnn"),
        ("os.path:join", "unit is os.path:join; known units: rnn"),
    ],
)
def test_what_is_wrong_is_said(unit: str, says: str, folder: Path) -> None:
    with pytest.raises(InputError) as raised:
        build_cell(unit, 3, 1, {})
    one_line(raised, says.format(folder=folder))


@pytest.fixture
def run(folder: Path, small_corpus: Path, tmp_path: Path) -> Path:
    """A run of the unit of one's own."""
    more = settings(small_corpus, "model.unit=mine:Leaky", "train.epochs=1")
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={tmp_path / 'run'}"]) == 0
    return tmp_path / "run"


def test_run_is_not_blamed_for_its_unit(
    run: Path,
    small_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither is it called damaged, nor set aside where its training goes on."""
    monkeypatch.delenv("BAYES_ASR_UNITS")
    more = settings(small_corpus, "model.unit=mine:Leaky", "train.epochs=2")
    capsys.readouterr()
    for file, command in (
        ("best.pt", ["forward", str(run), "--on=dev"]),
        ("last.pt", ["train", str(CONF / "base.yaml"), *more, f"--out={run}"]),
    ):
        assert main(command) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{run / file}: layer layer1 (recurrent): unit is mine:Leaky, " in error
        assert error.endswith(
            "set BAYES_ASR_UNITS to the folder of mine.py, whose code is run then"
        )
        assert (run / file).exists()


def test_file_that_changed_after_training_is_named_once(
    run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, messages: Callable[[], str]
) -> None:
    recorded = torch.load(run / "best.pt", weights_only=True)["unit_files"]
    assert recorded == {"mine.py": hashlib.sha256(LEAKY.encode()).hexdigest()}
    load(run)
    assert "another" not in messages()
    (folder / "mine.py").write_text(LEAKY.replace("/ 2,", "/ 3,"))
    monkeypatch.delitem(sys.modules, "external_units_mine")
    load(run)
    load(run)
    assert messages().count(f"{run}: trained with another {folder / 'mine.py'}; ") == 1


def test_training_goes_on_with_the_file_that_it_began_with(
    run: Path,
    folder: Path,
    small_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = settings(small_corpus, "model.unit=mine:Leaky", "train.epochs=2")
    begun = (run / "last.pt").read_bytes()
    (folder / "mine.py").write_text(LEAKY.replace("/ 2,", "/ 3,"))
    monkeypatch.delitem(sys.modules, "external_units_mine")
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={run}"]) == 1
    assert "mine.py: has changed since this run was started" in capsys.readouterr().err
    assert (run / "last.pt").read_bytes() == begun
    (folder / "mine.py").write_text(LEAKY)
    monkeypatch.delitem(sys.modules, "external_units_mine")
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={run}"]) == 0


def test_seeds_of_other_code_are_told_apart(
    run: Path, folder: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = settings(small_corpus, "model.unit=mine:Leaky", "train.epochs=1", "seed=2")
    (folder / "mine.py").write_text(LEAKY.replace("/ 2,", "/ 3,"))
    monkeypatch.delitem(sys.modules, "external_units_mine")
    other = run.with_name("other")
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={other}"]) == 0
    (difference,) = describe_unlike_seeds("a", [run, other])
    assert difference == "a: run and other are averaged, but the data differ: mine.py"


def test_it_has_no_options_of_ours(folder: Path) -> None:
    with pytest.raises(InputError, match="mine:Leaky has no activation; its options: none"):
        check_unit("mine:Leaky", {"activation": "relu"})


def test_a_file_with_annotations_as_texts_is_imported(folder: Path) -> None:
    """Dataclasses then look for the module by its name."""
    (folder / "noted.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from bayes_asr.nn.units.conventional import MLP\n"
        "@dataclass\nclass Options:\n    scale: float = 1.0\n"
        "class Unit(MLP):\n    pass\n"
    )
    assert find_cell("noted:Unit", {}).__name__ == "Unit"
