"""LSTMs of blocks of memory cells that share their gates."""

from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.units.cell import build_cell
from bayes_asr.nn.units.conventional import LSTM, BlockLSTM
from bayes_asr.train.components import architecture
from tests.support.nn_units import DIRECTIONS, KEYS, batch, layer, logits, model, name

T, CELLS, BLOCKS = 12, 2, 2
OPTIONS = {"cells_per_block": CELLS}


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def trained(net: torch.nn.Module) -> tuple[torch.nn.Parameter, ...]:
    return tuple(parameter for parameter in net.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("peepholes", [False, True])
def test_blocks_are_those_of_the_lecture(peepholes: bool) -> None:
    """Each block and cell by itself: the gates of a block, and the cells that they gate."""
    options = {**OPTIONS, "peepholes": peepholes}
    net = layer(unit="lstm", options=options, bidirectional=False, norm="none")
    x = batch((T,))[0]
    with torch.no_grad():
        found = net(x, PackedFrames((T,))).numpy()
        W, b, V = net.W.weight.numpy(), net.W.bias.numpy(), net.V[0].T.numpy()
        p = [getattr(net.cell, f"p_{g}")[0].numpy() if peepholes else np.zeros(4) for g in "ifo"]
    assert W.shape == (3 * BLOCKS + CELLS * BLOCKS, 3)

    def row(gate: int, block: int, h: np.ndarray, t: int) -> float:
        number = gate * BLOCKS + block
        return float(W[number] @ x[t].numpy() + V[number] @ h + b[number])

    h, c = np.zeros(CELLS * BLOCKS), np.zeros(CELLS * BLOCKS)
    for t in range(T):
        old_h, old_c = h.copy(), c.copy()
        for block in range(BLOCKS):
            cells = [s * BLOCKS + block for s in range(CELLS)]
            i = sigmoid(row(0, block, old_h, t) + sum(p[0][u] * old_c[u] for u in cells))
            f = sigmoid(row(1, block, old_h, t) + sum(p[1][u] * old_c[u] for u in cells))
            for s, u in enumerate(cells):
                c[u] = f * old_c[u] + i * np.tanh(row(2 + s, block, old_h, t))
            o = sigmoid(row(2 + CELLS, block, old_h, t) + sum(p[2][u] * c[u] for u in cells))
            for u in cells:
                h[u] = o * np.tanh(c[u])
        np.testing.assert_allclose(found[t], h, atol=1e-12)


@pytest.mark.parametrize("peepholes", [False, True])
def test_one_cell_a_block_is_an_lstm(peepholes: bool) -> None:
    own, plain = {"peepholes": peepholes, "cells_per_block": 1}, {"peepholes": peepholes}
    assert type(build_cell("lstm", 4, 1, own)) is LSTM
    net = layer(unit="lstm", options=plain, dropout=0.4)
    blocks = layer(unit="lstm", options=plain, dropout=0.4)
    blocks.cell = BlockLSTM(4, 2, cells_per_block=1, peepholes=peepholes).double()
    blocks.load_state_dict(net.state_dict())
    x, frames = batch()
    torch.testing.assert_close(blocks(x, frames, KEYS), net(x, frames, KEYS), rtol=0, atol=1e-14)


@pytest.mark.parametrize("directions", DIRECTIONS, ids=name)
def test_gradients_are_those_of_differences(directions: dict[str, bool]) -> None:
    options = {**OPTIONS, "peepholes": True}
    net = layer(unit="lstm", options=options, dropout=0.4, **directions)
    x, frames = batch()
    assert torch.autograd.gradcheck(
        lambda x, *_: net(x, frames, KEYS), (x.requires_grad_(), *trained(net)), fast_mode=True
    )


def test_neighbours_and_chunks_change_nothing() -> None:
    options: dict[str, Any] = {"unit": "lstm", "options": OPTIONS, "units": (4, 2)}
    net = model(**options).eval()
    x = [torch.randn(n, 3, dtype=torch.float64) for n in (2, 7, 1, 4)]
    for sequence, expected in zip(x, logits(net, x), strict=True):
        torch.testing.assert_close(logits(net, [sequence])[0], expected, rtol=0, atol=1e-12)
    forwards = model(**options, bidirectional=False).eval()
    with torch.no_grad():
        whole = forwards.hidden({"features": x[1]}, PackedFrames((7,)))
        first, states = forwards.advance({"features": x[1][:3]}, [])
        second, _ = forwards.advance({"features": x[1][3:]}, states)
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=0, atol=1e-12)


def test_a_configuration_has_them_and_refuses_what_does_not_fit() -> None:
    def built(*settings: str) -> AcousticModel:
        config = load([], ["model.layers=1", "model.unit=lstm", *settings])
        return AcousticModel(**architecture(config.model, {"features": 3}, {"pdfs": 2}))

    (blocks,), (plain,) = (
        built("model.units=6", f"model.cells_per_block={cells}").layers for cells in (3, 1)
    )
    assert blocks.W.out_features / plain.W.out_features == (1 + 3 / 3) / 4
    with pytest.raises(InputError, match="units is 7, which is no multiple of cells_per_block = 2"):
        built("model.units=7", "model.cells_per_block=2")
    with pytest.raises(InputError, match=r"model.cells_per_block is 2, but gru has no memory"):
        load([], ["model.unit=gru", "model.cells_per_block=2"])
    other = "model.stack=[{name: a, kind: recurrent, unit: gru}]"
    load([], ["model.unit=lstm", "model.cells_per_block=2", other])
