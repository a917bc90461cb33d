"""Verbs that are killed or refused by the disk while they write over older files."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from matplotlib.figure import Figure

from bayes_asr.decode import export
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.evaluate.report import figures
from tests.attacks.interference import WORKS, attack
from tests.attacks.kill_training import digest
from tests.attacks.laboratory import build

MEMORY = Path("/dev/shm")  # noqa: S108 - where fsync takes no time


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made:
        yield Path(made)


FAST = {"forward", "score"}
AT_ONCE = {"fold", "adapt", "combine", "export --onnx"}  # of which the last change is the only one


@pytest.fixture(scope="module")
def laboratory(folder: Path) -> Path:
    return build(folder / "laboratory")


class Drawing:
    """A figure that is drawn when it is first saved; others of its kind save the same bytes."""

    def __init__(self, draw: Callable[[], Figure], kept: dict[str, bytes]) -> None:
        self.draw, self.kept = draw, kept

    def savefig(self, path: Path, **options: Any) -> None:
        kind = repr(options)
        if kind not in self.kept:
            self.draw().savefig(path, **options)
            self.kept[kind] = path.read_bytes()
        path.write_bytes(self.kept[kind])


def draws_once(draw: Callable[..., Figure]) -> Callable[..., Drawing]:
    """What draws the same charts once."""
    drawings: dict[str, dict[str, bytes]] = {}
    return lambda *charts: Drawing(partial(draw, *charts), drawings.setdefault(repr(charts), {}))


def translates_once(translate: Callable[..., Any]) -> Callable[..., Any]:
    """What translates the same network once."""
    kept: dict[str, Any] = {}

    def translate_once(network: LogLikelihoods, **options: Any) -> Any:
        name = digest((network.model.state_dict(), network.log_priors.tolist(), options))
        if name not in kept:
            kept[name] = translate(network, **options)
        return deepcopy(kept[name])

    return translate_once


@pytest.fixture
def computed_once(verb: str, request: pytest.FixtureRequest) -> None:
    """What takes seconds and writes nothing is computed once: networks as ONNX, and figures."""
    monkeypatch = request.getfixturevalue("monkeypatch")
    if verb == "export --onnx":
        request.getfixturevalue("quick_onnx")
        monkeypatch.setattr(export, "_translate", translates_once(export._translate))
    if verb == "report":
        for name in ("draw_bars", "draw_curves", "draw_confusions"):
            monkeypatch.setattr(figures, name, draws_once(getattr(figures, name)))


@pytest.mark.slow
@pytest.mark.usefixtures("computed_once")
@pytest.mark.parametrize(
    ("verb", "every"),
    # All changes of all verbs take half an hour: python -m tests.attacks.interference
    [(verb, 9 if verb in FAST else 60 if verb in AT_ONCE else 15) for verb in sorted(WORKS)],
)
def test_files_that_belong_together_are_all_old_or_all_new(
    verb: str, every: int, laboratory: Path, folder: Path
) -> None:
    with TemporaryDirectory(dir=folder) as place:
        found = Counter(left for _, _, left in attack(verb, laboratory, Path(place), every))
    assert found.total() > 5
    assert verb in AT_ONCE or len(found) > 1, "some were before the change, some after"
