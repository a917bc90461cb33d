"""What the first lines of a training say of the network."""

from collections.abc import Callable

import pytest

from bayes_asr.config import load
from bayes_asr.nn.kernels import library
from bayes_asr.train.components import describe
from tests.support.nn_units import acoustic_model

compiled = pytest.mark.skipif(
    library.library() is None, reason="no compiled recurrences: install with a C++ compiler"
)


@pytest.mark.parametrize(
    ("unit", "path", "says"),
    [
        ("torch-gru", "", "recurrences run in torch"),
        ("mgu", "torch", "recurrences run in torch"),
        pytest.param("mgu", "portable", "run in compiled code (portable)", marks=compiled),
        ("mlp", "", ""),
    ],
)
def test_what_computes_recurrences(
    unit: str,
    path: str,
    says: str,
    messages: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(library.CHOICE, path)
    model = acoustic_model(3, [4], unit=unit, units=(4, 3), dropout=0.0)
    describe(load([], [f"model.unit={unit}"]).model, model)
    assert says in messages()
    assert bool(says) == ("recurrences" in messages())


@compiled
def test_layers_without_a_kernel_are_named(
    messages: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.CHOICE, "portable")
    model = acoustic_model(3, [4], unit="rnn", units=(4, 3), dropout=0.0)
    model.layers[0].fused = False  # type: ignore[assignment]
    describe(load([], []).model, model)
    first = model.names[0]
    assert f"run in compiled code (portable), those of {first} in torch" in messages()
