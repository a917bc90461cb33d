"""What the first lines of a training say of the network."""

from collections.abc import Callable

import pytest

from bayes_asr.config.merge import load
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.components import architecture, log_summary
from tests.support.nn_units import acoustic_model

compiled = pytest.mark.skipif(
    not library.LIBRARY.usable, reason="no compiled recurrences: install with a C++ compiler"
)


@pytest.mark.parametrize(
    ("unit", "path", "left"),
    [
        ("torch-gru", "", 2),
        ("mgu", "torch", 2),
        pytest.param("mgu", "portable", 0, marks=compiled),
        ("mlp", "", 0),
    ],
)
def test_recurrences_without_compiled_code_are_named(
    unit: str, path: str, left: int, messages: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    model = acoustic_model(3, [4], unit=unit, units=(4, 3), dropout=0.0)
    log_summary(load([], [f"model.unit={unit}"]).model, model)
    named = ", ".join(model.names[:left])
    assert bool(left) == (f"no compiled code here for the recurrence of {named}:" in messages())
    assert bool(left) == ("recurrence" in messages())


@compiled
def test_only_layers_without_compiled_code_are_named(
    messages: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, "portable")
    model = acoustic_model(3, [4], unit="rnn", units=(4, 3), dropout=0.0)
    model.layers[0].fused = False  # type: ignore[assignment]
    log_summary(load([], []).model, model)
    assert f"for the recurrence of {model.names[0]}: torch runs it" in messages()


def test_smoothers_that_read_both_directions_twice_are_named(messages: Callable[[], str]) -> None:
    for both in ("false", "true"):
        settings = ["model.unit=ubru", "model.smooth=true", f"model.bidirectional={both}"]
        config = load([], [*settings, "model.layers=2", "model.units=4"]).model
        log_summary(config, AcousticModel(**architecture(config, {"features": 3}, {"pdfs": 2})))
        assert ("layer2: a smoother" in messages()) == (both == "true")
