"""Networks that compiled code computes in single precision: the same bits in any company."""

from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.config.catalogue import DROPPED
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.nn.kernels.cpu import library
from bayes_asr.nn.linear import PRODUCTS
from bayes_asr.train.runs.trained_network import TrainedNetwork
from tests.support.nn_units import DIRECTIONS, RECURRENT, acoustic_model, name, plain_front_end

SIZE = 5
PATHS = [path for path in library.paths() if path in PRODUCTS[torch.float32]]
NORMS = ("batch", "layer", "none")
DROPPING: list[dict[str, Any]] = [
    {"unit": unit, "options": {"dropped_candidate": dropped}, "dropout": 0.2}
    for unit in ("bru", "li-bru")
    for dropped in DROPPED
]
PROBABLE: list[dict[str, Any]] = [
    {"unit": unit, "options": {}, "hand_on": "prob"} for unit in ("bru", "li-bru", "ubru")
]
GIVEN = [*RECURRENT, *DROPPING, *PROBABLE]
pytestmark = pytest.mark.skipif(not PATHS, reason="no compiled products: install a C++ compiler")


def network(**options: Any) -> LogLikelihoods:
    torch.manual_seed(3)
    model = acoustic_model(SIZE, [300], units=(40, 24), **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    priors = torch.full((300,), -np.log(300), dtype=torch.float64)
    return LogLikelihoods(TrainedNetwork(model, {"features": plain_front_end(SIZE)}, priors))


def precision_of(net: LogLikelihoods) -> torch.dtype:
    return next(net.model.parameters()).dtype


def utterances() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((t, SIZE)).astype(np.float32) for t in (70, 1, 33, 33, 2, 70, 18)]


@pytest.fixture
def threads() -> Any:
    """Restore the number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("number", range(len(GIVEN)), ids=lambda n: name(GIVEN[n]))
def test_company_and_threads_change_no_bit(
    number: int, path: str, monkeypatch: pytest.MonkeyPatch, threads: None
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    form = {**DIRECTIONS[number % 3], "norm": NORMS[number % len(NORMS)]}
    net, given = network(**GIVEN[number], **form), utterances()
    if not net.model.batch_invariant:
        assert precision_of(net) == torch.float64
        return
    assert precision_of(net) == torch.float32
    torch.set_num_threads(2)
    together = net.compute_prepared(given)
    torch.set_num_threads(1)
    for x, found in zip(given, together, strict=True):
        assert torch.equal(net.compute_prepared([x])[0], found)
        if not net.model.looks_ahead:
            stream = net.stream()
            parts = [*(stream(part) for part in np.split(x, [1, 3, 30])), stream.finish()]
            assert torch.equal(torch.cat(parts), found)
    exact = torch.cat(net.double().compute_prepared(given))
    torch.testing.assert_close(torch.cat(together), exact, rtol=0, atol=5e-6)


def test_most_units_are_steady() -> None:
    """That the test above tests something."""
    steady = {unit["unit"] for unit in RECURRENT if network(**unit).model.batch_invariant}
    assert steady >= {"rnn", "bru", "li-gru", "li-bru", "gru", "lstm"}


def test_what_torch_adds_or_hands_on_is_in_double() -> None:
    """Its product and its sigmoid, whose bits depend on the number of rows."""
    assert [precision_of(network(**each)) for each in DROPPING[:3]] == [
        torch.float32,  # zero: nothing is added
        torch.float64,
        torch.float64,
    ]
    for each in PROBABLE:
        steady = each["unit"] != "ubru"
        assert precision_of(network(**each)) == (torch.float32 if steady else torch.float64)


def test_an_lstm_in_chunks_is_computed_in_double() -> None:
    """Compiled code keeps one of its two states."""
    assert precision_of(network(unit="lstm")) == torch.float32
    assert precision_of(network(unit="lstm", bidirectional=False)) == torch.float64


@pytest.mark.parametrize("path", ["torch", *set(library.paths()).difference(PATHS)])
def test_without_such_products_everything_is_in_double(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.PATH_VARIABLE, path)
    assert precision_of(network()) == torch.float64
