"""What a dropped candidate may be, against the equation in NumPy and means by hand."""

import copy
import threading
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import DROPPED, check_unit
from bayes_asr.nn.frames import PackedFrames, pack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.nn.norm import MOMENTUM
from bayes_asr.nn.recurrent import RecurrentLayer
from tests.support.nn_units import (
    KEYS,
    LENGTHS,
    Processes,
    batch,
    gradients,
    layer,
    model,
    pdf_logits,
)

DROPOUT = 0.4


def dropping(unit: str = "li-bru", dropped: str = "mean", **options: Any) -> RecurrentLayer:
    return layer(
        unit=unit,
        options={"dropped_candidate": dropped},
        dropout=DROPOUT,
        norm="none",
        bidirectional=False,
        **options,
    )


def mixed(net: RecurrentLayer, x: torch.Tensor, mask: np.ndarray, d: np.ndarray) -> np.ndarray:
    """log h of one sequence, with candidates d + m (log c - d)."""
    with torch.no_grad():
        inputs = net.W(x).view(len(x), net.cell.gates, net.units).numpy()
        V = net.V.view(net.units, net.cell.gates, net.units).permute(1, 2, 0).numpy()  # type: ignore[union-attr]
    h, outputs = np.full(net.units, 0.5), []
    for a in inputs:
        gates = expit(a + V @ np.log(h))
        candidate = np.exp(d + mask * (np.log(gates[-1]) - d))
        h = gates[0] * candidate + (1 - gates[0]) * h if len(gates) == 2 else candidate
        outputs.append(np.log(h))
    return np.array(outputs)


@pytest.mark.parametrize("scaling", ["pytorch-kaldi", "inverted"])
@pytest.mark.parametrize("dropped", DROPPED)
@pytest.mark.parametrize("unit", ["bru", "li-bru"])
def test_a_candidate_comes_as_near_to_the_constant_as_its_mask_says(
    unit: str, dropped: str, scaling: str
) -> None:
    net = dropping(unit, dropped, dropout_scaling=scaling)
    d = np.full(4, np.log(0.5) if dropped == "half" else 0.0)
    if net.cell.dropped is not None:
        net.cell.dropped[:] = torch.tensor([[-0.2, -0.7, -1.5, -3]])  # type: ignore[index]
        d = net.cell.dropped[0].numpy()  # type: ignore[index]
    x, frames, key = batch((12,))[0], PackedFrames((12,)), KEYS[:1]
    for keys in (key, None):
        mask = net._mask(frames, keys)
        mask = np.ones(4) if mask is None else mask[0, 0].numpy()
        expected = mixed(net, x, mask, d)
        with torch.no_grad():
            net.eval()
            np.testing.assert_allclose(net(x, frames, keys).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("form", "half"), [("prob", np.log(0.5)), ("log", np.log(2))])
def test_a_unit_that_is_dropped_as_half_says_nothing_for_good(form: str, half: float) -> None:
    net = layer(options={"form": form, "dropped_candidate": "half"}, dropout=0.5)
    x, frames = batch((12,))
    mask = net._mask(frames, KEYS[:1])
    assert mask is not None
    with torch.no_grad():
        dropped = net(x, frames, KEYS[:1])[:, mask.flatten() == 0]
    assert dropped.shape[1] in range(1, 8)
    np.testing.assert_allclose(dropped, half, atol=1e-12)


def test_the_mean_is_that_of_the_frames_in_which_a_unit_is_kept() -> None:
    net = layer(options={"dropped_candidate": "mean"}, dropout=DROPOUT, tied_directions=True)
    x, frames = batch()
    before = net.cell.dropped.clone()  # type: ignore[union-attr, operator]
    mask = net._mask(frames, KEYS)
    assert mask is not None
    h = net(x, frames, KEYS).detach().view(frames.count, 2, 4)
    kept = mask[frames.sequence] > 0
    for unit in range(4):
        mean = h[:, :, unit][kept[:, :, unit]].mean()
        expected = before[0, unit] + MOMENTUM * (mean - before[0, unit])
        torch.testing.assert_close(net.cell.dropped[0, unit], expected)  # type: ignore[index]
    after = net.state_dict()["cell.dropped"].clone()
    net.eval()
    net(x, frames, KEYS)
    assert torch.equal(net.state_dict()["cell.dropped"], after)


@pytest.mark.parametrize("form", ["prob", "log", "geometric", "harmonic"])
def test_gradients_are_those_of_the_mean_that_the_states_have_read(form: str) -> None:
    """Training moves the mean between the two passes."""
    written = layer(options={"form": form, "dropped_candidate": "mean"}, dropout=DROPOUT)
    written.cell.dropped.mul_(2)  # type: ignore[union-attr, operator]
    scanned = copy.deepcopy(written)
    scanned.fused = False
    x, frames = batch()
    (y, found), (expected, wanted) = (
        gradients(net.train(), x, frames, KEYS) for net in (written, scanned)
    )
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(found, wanted)


def test_the_mean_of_several_processes_is_that_of_one() -> None:
    sequences = batch()[0].split(LENGTHS)
    shares = [(0, 1, 3), (2,), ()]

    def observe(net: RecurrentLayer, own: tuple[int, ...]) -> None:
        x, frames = sequences[0][:0], PackedFrames(())
        if own:
            x, frames, _ = pack([sequences[b] for b in own])
        net(x, frames, KEYS[list(own)])

    alone, *together = (dropping() for _ in range(4))
    observe(alone, (0, 1, 2, 3))
    processes = Processes(3)
    for net in together:
        net.cell.all_reduce = processes.all_reduce  # type: ignore[assignment, union-attr]
    threads = [
        threading.Thread(target=observe, args=each) for each in zip(together, shares, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for net in together:
        torch.testing.assert_close(net.cell.dropped, alone.cell.dropped)


def test_only_units_of_logarithms_have_a_choice() -> None:
    with pytest.raises(InputError, match=r"dropped_candidate is half, but li-gru has no dropped"):
        check_unit("li-gru", {"dropped_candidate": "half"})
    with pytest.raises(InputError, match=r"dropped_candidate is halve; .*did you mean half"):
        check_unit("bru", {"dropped_candidate": "halve"})


@pytest.mark.parametrize("dropped", DROPPED)
def test_a_saved_network_computes_what_it_did(dropped: str) -> None:
    net = model(unit="li-bru", options={"dropped_candidate": dropped}, dropout=DROPOUT)
    x, frames = batch()
    pdf_logits(net, x, frames, KEYS)
    with torch.device("meta"):  # as `TrainedNetwork.of_content`
        read = AcousticModel(**net.architecture)
    read.load_state_dict(net.state_dict(), assign=True)
    assert torch.equal(pdf_logits(read.eval(), x, frames), pdf_logits(net.eval(), x, frames))
