"""Normalisation of the feed-forward part, against torch's own; dropout's two scalings."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.nn.norm import NORMS, AllReduce, BatchNorm, build_norm
from tests.support.nn_units import DIRECTIONS, KEYS, Processes, batch, layer, name

N, SETS, GATES, H = 7, 2, 3, 5
torch.manual_seed(0)
X = 2 * torch.randn(N, SETS * GATES * H, dtype=torch.float64) + 1


def gate(x: torch.Tensor, s: int, g: int) -> torch.Tensor:
    """Terms of one gate of one set [N, H]."""
    return x.view(N, SETS, GATES, H)[:, s, g]


def test_each_gate_has_a_batch_norm_of_its_own() -> None:
    norm = build_norm("batch", SETS, GATES, H).double()
    y = norm(X)
    for s in range(SETS):
        for g in range(GATES):
            theirs = torch.nn.BatchNorm1d(H, momentum=0.05).double()
            torch.testing.assert_close(gate(y, s, g), theirs(gate(X, s, g)))
            running = norm.running_var.view(SETS, GATES, H)[s, g]
            torch.testing.assert_close(running, theirs.running_var)


def test_shared_batch_norm_is_one_module_called_for_each_gate() -> None:
    norm = build_norm("batch-shared", SETS, GATES, H).double()
    y = norm(X)
    for s in range(SETS):
        theirs = torch.nn.BatchNorm1d(H, momentum=0.05).double()
        for g in reversed(range(GATES)):  # the authors' code: the candidate, then the gate
            torch.testing.assert_close(gate(y, s, g), theirs(gate(X, s, g)))
        torch.testing.assert_close(norm.norm.running_mean.view(SETS, H)[s], theirs.running_mean)


def test_layer_norm_is_torchs_for_each_gate() -> None:
    norm = build_norm("layer", SETS, GATES, H).double()
    for s in range(SETS):
        for g in range(GATES):
            theirs = torch.nn.LayerNorm(H).double()
            torch.testing.assert_close(gate(norm(X), s, g), theirs(gate(X, s, g)))


@pytest.mark.parametrize("kind", NORMS)
def test_a_frame_alone_is_normalised_as_in_evaluation(kind: str) -> None:
    norm = build_norm(kind, SETS, GATES, H).double()
    norm(X)
    trained = norm(X[:1])
    assert torch.equal(trained, norm.eval()(X[:1]))


def test_one_unit_has_no_deviation_of_a_sample() -> None:
    with pytest.raises(InputError, match="there is 1; use batch or none"):
        build_norm("layer-pytorch-kaldi", 1, 2, 1)


def test_unknown_normalisation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="norm is group; known: batch, batch-shared, "):
        build_norm("group", 1, 1, 1)


@pytest.mark.parametrize("directions", DIRECTIONS, ids=name)
@pytest.mark.parametrize("norm", ["batch-shared", "layer"])
def test_gradients_are_those_of_finite_differences(directions: dict[str, bool], norm: str) -> None:
    net = layer(unit="li-bru", **directions, norm=norm)
    x, frames = batch()
    assert torch.autograd.gradcheck(
        lambda *_: net(x, frames), tuple(net.parameters()), fast_mode=True
    )


@pytest.mark.parametrize(
    ("scaling", "training", "evaluation"),
    [("pytorch-kaldi", 1.0, 0.75), ("inverted", 1 / 0.75, 1.0)],
)
def test_dropout_scales_where_it_says(scaling: str, training: float, evaluation: float) -> None:
    options: dict[str, Any] = {"unit": "mlp", "norm": "none"}
    plain = layer(**options)
    dropping = layer(**options, dropout=0.25, dropout_scaling=scaling)
    x, frames = batch()
    y, dropped = plain(x, frames), dropping(x, frames, KEYS)
    torch.testing.assert_close(dropping(x, frames), evaluation * y)
    kept = dropped != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(dropped[kept], training * y[kept])


def test_dropped_candidates_of_the_light_unit_are_certain() -> None:
    net = layer(unit="li-bru", norm="none", dropout=0.5, bidirectional=False)
    with torch.no_grad():
        net.W.weight[:4], net.W.bias[:4] = 0.0, 60.0  # the gate takes the candidate
        net.V[:, :, :4] = 0.0
    x, frames = batch((6,))
    certain = (net(x, frames, KEYS[:1]).abs() < 1e-12).all(0)
    assert 0 < certain.sum() < 4


@pytest.mark.parametrize("kind", ["batch", "batch-shared"])
@pytest.mark.parametrize("shares", [(4, 3), (7, 0), (1, 2, 4), (0, 1)])
def test_processes_that_share_a_batch_normalise_it_as_one(
    kind: str, shares: tuple[int, ...]
) -> None:
    processes = Processes(len(shares))
    x, weights = X[: sum(shares)], torch.randn(sum(shares), X.shape[1], dtype=torch.float64)

    def trained(all_reduce: AllReduce | None, part: slice) -> list[torch.Tensor]:
        """The output, all gradients, and the running statistics after two batches."""
        norm = build_norm(kind, SETS, GATES, H).double()
        for module in norm.modules():
            if isinstance(module, BatchNorm):
                module.all_reduce = all_reduce
        mine = x[part].clone().requires_grad_()
        norm(mine.detach() - 3)
        y = norm(mine)
        (y.square() * weights[part]).sum().backward()
        assert mine.grad is not None
        learnt = [p.grad for p in norm.parameters() if p.grad is not None]
        seen = [buffer for buffer in norm.buffers() if buffer.is_floating_point()]
        return [y.detach(), mine.grad, *learnt, *seen]

    ends = list(itertools.accumulate(shares))
    parts = [slice(end - n, end) for n, end in zip(shares, ends, strict=True)]
    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(lambda part: trained(processes.all_reduce, part), parts))
    y, by_x, by_scale, by_shift, *seen = trained(None, slice(None))
    torch.testing.assert_close(torch.cat([each[0] for each in found]), y)
    torch.testing.assert_close(torch.cat([each[1] for each in found]), by_x)
    for i, expected in ((2, by_scale), (3, by_shift)):
        torch.testing.assert_close(sum(each[i] for each in found), expected)
    for each in found:
        torch.testing.assert_close(each[4:], seen)
