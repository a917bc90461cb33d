"""Each unit against its equation as printed, in NumPy, and against torch's own units."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit, logit

from bayes_asr.base.errors import InputError
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.norm import NORMS
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.nn.units.cell import build_cell, find_cell
from tests.support.nn_units import UNITS, batch, layer, name, recurrent_layer

Array = np.ndarray
T = 12


def sigmoid(a: Array) -> Array:
    return expit(a)


def softplus(a: Array) -> Array:
    return np.logaddexp(0, a)


def relu(a: Array) -> Array:
    return np.maximum(a, 0)


def single(unit: str, **options: Any) -> tuple[RecurrentLayer, torch.Tensor]:
    """A layer in one direction without normalisation, and one sequence of T frames for it."""
    net = layer(unit=unit, options=options, bidirectional=False, norm="none")
    return net, batch((T,))[0]


def states(net: RecurrentLayer, x: torch.Tensor) -> Array:
    """What the layer computes [T, H]."""
    with torch.no_grad():
        return net(x, PackedFrames((len(x),))).numpy()


def printed(
    net: RecurrentLayer, x: torch.Tensor, start: float, equation: Callable[..., Array]
) -> Array:
    """Follow `equation(h, a, V)` frame by frame: a[g] = W_g x_t + b_g and V[g] of each gate g."""
    gates, units = net.cell.gates, net.units
    with torch.no_grad():
        feed_forward = net.W(x).view(len(x), gates, units).numpy()
        V = net.V.view(units, gates, units).permute(1, 2, 0).numpy() if net.V is not None else None
    h, outputs = np.full(units, start), []
    for a in feed_forward:
        h = equation(h, a, V)
        outputs.append(h)
    return np.array(outputs)


def eq13(h: Array, a: Array, V: Array) -> Array:
    return sigmoid(a[0] + V[0] @ np.log(h))


def eq14(h: Array, a: Array, V: Array) -> Array:
    return softplus(a[0] + V[0] @ h)


def eq19(h: Array, a: Array, V: Array) -> Array:
    z = sigmoid(a[0] + V[0] @ np.log(h))
    c = sigmoid(a[1] + V[1] @ np.log(h))
    return z * c + (1 - z) * h


def light(f: Callable[[Array], Array]) -> Callable[..., Array]:
    def eq8(h: Array, a: Array, V: Array) -> Array:
        z = sigmoid(a[0] + V[0] @ h)
        return z * f(a[1] + V[1] @ h) + (1 - z) * h

    return eq8


def harmonic(h: Array, a: Array, V: Array) -> Array:
    """h = -log p, where p is the harmonic mean of two probabilities."""
    z, candidate = sigmoid(a[0] + V[0] @ h), np.exp(-softplus(a[1] + V[1] @ h))
    return -np.log(1 / (z / candidate + (1 - z) / np.exp(-h)))


def plain(f: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda h, a, V: f(a[0] + V[0] @ h)


def cho(h: Array, a: Array, V: Array) -> Array:
    z, r = sigmoid(a[0] + V[0] @ h), sigmoid(a[1] + V[1] @ h)
    return (1 - z) * h + z * np.tanh(a[2] + V[2] @ (r * h))


def zhou(h: Array, a: Array, V: Array) -> Array:
    f = sigmoid(a[0] + V[0] @ h)
    return (1 - f) * h + f * np.tanh(a[1] + V[1] @ (f * h))


def pytorch_kaldi_minimal(h: Array, a: Array, V: Array) -> Array:
    z = sigmoid(a[0] + V[0] @ h)
    return z * h + (1 - z) * np.tanh(a[1] + V[1] @ (z * h))


EQUATIONS = [
    ("rnn", {}, 0.0, plain(np.tanh)),
    ("rnn", {"activation": "sigmoid"}, 0.0, plain(sigmoid)),
    ("rnn", {"activation": "relu"}, 0.0, plain(relu)),
    ("rnn", {"activation": "softplus"}, 0.0, eq14),
    ("bru", {"form": "log"}, np.log(2), eq14),
    ("li-gru", {}, 0.0, light(relu)),
    ("li-gru", {"activation": "softplus"}, 0.0, light(softplus)),
    ("li-bru", {"form": "geometric"}, np.log(2), light(softplus)),
    ("li-bru", {"form": "harmonic"}, np.log(2), harmonic),
    ("gru", {}, 0.0, cho),
    ("mgu", {}, 0.0, zhou),
    ("minimal-gru", {}, 0.0, pytorch_kaldi_minimal),
]


@pytest.mark.parametrize(("unit", "options", "start", "equation"), EQUATIONS)
def test_unit_is_its_equation(
    unit: str, options: dict[str, Any], start: float, equation: Callable[..., Array]
) -> None:
    net, x = single(unit, **options)
    np.testing.assert_allclose(states(net, x), printed(net, x, start, equation), atol=1e-12)


def test_initial_state_may_be_zero() -> None:
    net = layer(
        unit="li-bru",
        options={"form": "harmonic"},
        bidirectional=False,
        norm="none",
        initial_state="zero",
    )
    x, _ = batch((T,))
    np.testing.assert_allclose(states(net, x), printed(net, x, 0.0, harmonic), atol=1e-12)


def test_bru_with_both_terms_of_the_beta_distribution() -> None:
    net, x = single("bru", form="complement")
    U = net.cell.U.detach()[0].T.numpy()  # type: ignore[union-attr, operator]

    def eq7(h: Array, a: Array, V: Array) -> Array:
        return sigmoid(a[0] + V[0] @ np.log(h) + U @ np.log(1 - h))

    np.testing.assert_allclose(np.exp(states(net, x)), printed(net, x, 0.5, eq7), atol=1e-12)


def test_a_gate_that_recurs_on_itself() -> None:
    net, x = single("li-bru", form="own-gate")
    z = np.full(net.units, 0.5)

    def section4(h: Array, a: Array, V: Array) -> Array:
        nonlocal z
        z = sigmoid(a[0] + V[0] @ np.log(z))
        return z * sigmoid(a[1] + V[1] @ np.log(h)) + (1 - z) * h

    np.testing.assert_allclose(np.exp(states(net, x)), printed(net, x, 0.5, section4), atol=1e-12)


@pytest.mark.parametrize(("unit", "equation"), [("bru", eq13), ("li-bru", eq19)])
def test_probability_forms_are_their_equations(unit: str, equation: Callable[..., Array]) -> None:
    net, x = single(unit)
    expected = printed(net, x, 0.5, equation)
    np.testing.assert_allclose(states(net, x), np.log(expected), atol=1e-12)
    net.as_probability = True
    np.testing.assert_allclose(states(net, x), expected, atol=1e-12)


@pytest.mark.parametrize("unit", ["bru", "li-bru"])
def test_log_form_is_the_probability_form_under_the_map(unit: str) -> None:
    prob, x = single(unit)
    log, _ = single(unit, form="log")
    log.load_state_dict(prob.state_dict())
    signs = {"bru": {"W": [-1.0], "V": [1.0]}, "li-bru": {"W": [1.0, -1.0], "V": [-1.0, 1.0]}}[unit]
    with torch.no_grad():
        by_gate = torch.tensor(signs["W"], dtype=torch.float64).repeat_interleave(4)
        log.W.weight.mul_(by_gate[:, None])
        log.W.bias.mul_(by_gate)
        log.V.mul_(torch.tensor(signs["V"], dtype=torch.float64).repeat_interleave(4))
    np.testing.assert_allclose(states(log, x), -states(prob, x), atol=1e-12)


def test_log_form_with_the_same_weights_is_another_function() -> None:
    prob, x = single("bru")
    log, _ = single("bru", form="log")
    log.load_state_dict(prob.state_dict())
    assert np.abs(states(log, x) + states(prob, x)).max() > 0.1


@pytest.mark.parametrize(
    ("unit", "options", "theirs"),
    [
        ("rnn", {"activation": "tanh"}, lambda: torch.nn.RNN(3, 4, bidirectional=True)),
        (
            "rnn",
            {"activation": "relu"},
            lambda: torch.nn.RNN(3, 4, nonlinearity="relu", bidirectional=True),
        ),
        ("lstm", {}, lambda: torch.nn.LSTM(3, 4, bidirectional=True)),
        ("torch-lstm", {}, lambda: torch.nn.LSTM(3, 4, bidirectional=True)),
        ("torch-gru", {}, lambda: torch.nn.GRU(3, 4, bidirectional=True)),
    ],
)
def test_torch_computes_the_same_with_these_weights(
    unit: str, options: dict[str, Any], theirs: Callable[[], torch.nn.RNNBase]
) -> None:
    net = layer(unit=unit, options=options, norm="none", tied_directions=False)
    reference = theirs().double()
    with torch.no_grad():
        for d, suffix in enumerate(("", "_reverse")):
            W, V = net.W.weight.view(2, -1, 3)[d], net.V[d].T
            reference.get_parameter(f"weight_ih_l0{suffix}").copy_(W)
            reference.get_parameter(f"weight_hh_l0{suffix}").copy_(V)
            reference.get_parameter(f"bias_ih_l0{suffix}").copy_(net.W.bias.view(2, -1)[d])
            recurrent_bias = reference.get_parameter(f"bias_hh_l0{suffix}").zero_()
            if unit == "torch-gru":
                recurrent_bias[8:] = net.cell.recurrent_bias[d]
    x, frames = batch()
    packed = torch.nn.utils.rnn.PackedSequence(x, torch.tensor(frames.sizes))
    torch.testing.assert_close(net(x, frames), reference(packed)[0].data, rtol=0, atol=1e-12)


def test_gru_of_cho_is_not_torchs() -> None:
    ours, x = single("gru")
    torchs, _ = single("torch-gru")
    # Other order of gates and polarity of z, the same weights otherwise.
    order = torch.tensor([1, 0, 2])
    with torch.no_grad():
        for ours_, theirs in ((ours.W.weight, torchs.W.weight), (ours.W.bias, torchs.W.bias)):
            gates = ours_.view(3, 4, -1)[order] * torch.tensor([1.0, -1.0, 1.0])[:, None, None]
            theirs.copy_(gates.reshape(theirs.shape))
        signs = torch.tensor([1.0, -1.0, 1.0])[:, None]
        torchs.V.copy_((ours.V.view(4, 3, 4)[:, order] * signs).reshape(1, 4, 12))
        torchs.cell.recurrent_bias.zero_()
        assert np.abs(states(ours, x) - states(torchs, x)).max() > 1e-3
        # With an open reset gate they are one function.
        ours.W.bias[4:8] = torchs.W.bias[:4] = 50.0
    np.testing.assert_allclose(states(ours, x), states(torchs, x), atol=1e-12)


def test_lstm_with_peepholes_is_that_of_the_lecture() -> None:
    net, x = single("lstm", peepholes=True)
    with torch.no_grad():
        a = net.W(x).view(T, 4, 4).numpy()
        V = net.V.view(4, 4, 4).permute(1, 2, 0).numpy()
        p_i, p_f, p_o = (p[0].numpy() for p in (net.cell.p_i, net.cell.p_f, net.cell.p_o))
    h = s = np.zeros(4)
    for t in range(T):
        b_i = sigmoid(a[t, 0] + V[0] @ h + p_i * s)
        b_f = sigmoid(a[t, 1] + V[1] @ h + p_f * s)
        s = b_f * s + b_i * np.tanh(a[t, 2] + V[2] @ h)
        b_o = sigmoid(a[t, 3] + V[3] @ h + p_o * s)
        h = b_o * np.tanh(s)
        np.testing.assert_allclose(states(net, x)[t], h, atol=1e-12)


def test_li_gru_in_the_polarity_of_pytorch_kaldi() -> None:
    net, x = single("li-gru")

    def theirs(h: Array, a: Array, V: Array) -> Array:
        z = sigmoid(-a[0] - V[0] @ h)
        return z * h + (1 - z) * relu(a[1] + V[1] @ h)

    np.testing.assert_allclose(states(net, x), printed(net, x, 0.0, theirs), atol=1e-12)


def is_probabilistic(unit: dict[str, Any]) -> bool:
    return build_cell(unit["unit"], 1, 1, unit["options"]).probabilistic


def gate_bias(net: RecurrentLayer, value: float) -> None:
    """Hold the first gate open or closed."""
    with torch.no_grad():
        net.W.weight[: net.units], net.W.bias[: net.units] = 0.0, value
        net.V[:, :, : net.units] = 0.0


@pytest.mark.parametrize(
    ("unit", "options", "start", "ungated"),
    [
        ("li-bru", {}, 0.5, lambda h, a, V: sigmoid(a[1] + V[1] @ np.log(h))),
        ("li-gru", {}, 0.0, lambda h, a, V: relu(a[1] + V[1] @ h)),
        ("mgu", {}, 0.0, lambda h, a, V: np.tanh(a[1] + V[1] @ h)),
    ],
)
def test_an_open_gate_leaves_the_simple_unit_and_a_closed_one_the_start(
    unit: str, options: dict[str, Any], start: float, ungated: Callable[..., Array]
) -> None:
    net, x = single(unit, **options)
    net.as_probability = net.cell.probabilistic
    gate_bias(net, 60.0)
    np.testing.assert_allclose(states(net, x), printed(net, x, start, ungated), atol=1e-12)
    gate_bias(net, -60.0)
    np.testing.assert_allclose(states(net, x), start, atol=1e-12)


GATED = [u for u in UNITS if find_cell(**u).gates > 1 and find_cell(**u).fusible]


@pytest.mark.parametrize("unit", GATED, ids=name)
def test_single_precision_holds_a_state_behind_a_shut_gate(unit: dict[str, Any]) -> None:
    cell = build_cell(unit["unit"], 64, 1, unit["options"])
    torch.manual_seed(0)
    a = torch.randn(500, 1, 1, cell.gates, 64)
    a[..., 0, :] -= 10  # errors of one sign would add up over the frames
    single, double = (
        tuple(cell.start(torch.ones(1, 1, 64, dtype=dtype)) for _ in range(cell.states))
        for dtype in (torch.float32, torch.float64)
    )
    for a_t in a:
        single, double = (cell(a_t.to(s[0].dtype), s, None) for s in (single, double))
    torch.testing.assert_close(single[0].double(), double[0], atol=3e-6, rtol=0)


@pytest.mark.parametrize("form", ["prob", "log", "geometric", "harmonic"])
def test_light_units_stay_between_the_candidate_and_the_old_state(form: str) -> None:
    cell = build_cell("li-bru", 50, 1, {"form": form})
    torch.manual_seed(0)
    a = 4 * torch.randn(1, 1, 2, 50, dtype=torch.float64)
    h = cell.start(3 * torch.randn(1, 1, 50, dtype=torch.float64))
    (new,) = cell(a, (h,), None)
    closed = a.clone()
    closed[:, :, 0] = 1e3
    (candidate,) = cell(closed, (h,), None)
    low, high = torch.minimum(candidate, h), torch.maximum(candidate, h)
    assert (low - 1e-12 <= new).all()
    assert (new <= high + 1e-12).all()


def test_means_of_probabilities_are_in_order() -> None:
    torch.manual_seed(0)
    a = 4 * torch.randn(1, 1, 2, 50, dtype=torch.float64)
    h = torch.randn(1, 1, 50, dtype=torch.float64).abs()
    means = [
        cell.probability(cell(a, (h,), None)[0])
        for cell in (
            build_cell("li-bru", 50, 1, {"form": form}) for form in ("log", "geometric", "harmonic")
        )
    ]
    for greater, less in pairwise(means):
        assert (greater >= less - 1e-15).all()
        assert (greater > less + 1e-3).any()


def test_softplus_sharpened_is_relu() -> None:
    a = np.linspace(-5, 5, 1001)
    for b in (1.0, 10.0, 100.0):
        assert np.abs(softplus(b * a) / b - relu(a)).max() == pytest.approx(np.log(2) / b)


def chain(net: RecurrentLayer, x: torch.Tensor, transitions: str) -> tuple[Array, ...]:
    """Logits of the transition probabilities, and the evidence [T, H] of a unit-wise unit."""
    with torch.no_grad():
        terms = list(net.W(x).view(len(x), net.cell.projections, -1).numpy().swapaxes(0, 1))
    a = terms.pop()
    if net.cell.input_gate:  # which begins at 0.88
        i = terms.pop() + 2
        a = np.logaddexp(log_expit(i) + a, log_expit(-i))
    if transitions == "from-input":  # gates that begin at 0.88 and 0.12
        return terms[0] + 2, terms[1] - 2, a
    parameters = dict(
        (net.expansion[0] if transitions == "context" else net.cell).named_parameters()
    )
    numbers = {name: number[0].detach().numpy() for name, number in parameters.items()}
    fixed = [np.tile(numbers[name], (len(x), 1)) for name in ("stay", "enter")]
    if transitions == "context":
        c = expit(terms[0] + 2)
        prior = (1 - c) * expit(numbers["prior"])
        fixed = [logit(c * expit(number) + prior) for number in fixed]
    return fixed[0], fixed[1], a


@pytest.mark.parametrize("size", [1.0, 50.0, 1e3])
@pytest.mark.parametrize("transitions", ["trained", "from-input", "context"])
@pytest.mark.parametrize("input_gate", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
def test_unit_wise_unit_is_the_enumerated_markov_chain(
    size: float, transitions: str, input_gate: bool, smooth: bool
) -> None:
    net, x = single("ubru", transitions=transitions, input_gate=input_gate, smooth=smooth)
    frames = 7
    x = x[:frames]
    with torch.no_grad():
        net.W.weight.mul_(size)
        net.W.bias.mul_(size)
    stay, enter, a = chain(net, x, transitions)
    paths = np.array(np.meshgrid(*[[0, 1]] * (frames + 1), indexing="ij")).reshape(frames + 1, -1)
    for unit in range(4):
        to_present = np.where(paths[:-1] == 1, stay[:, unit, None], enter[:, unit, None])
        moves = log_expit(np.where(paths[1:] == 1, to_present, -to_present))
        evidence = a[:, unit, None] * paths[1:]
        for t in range(frames):
            seen = frames if smooth else t + 1
            joint = moves.sum(0) + evidence[:seen].sum(0)  # the uniform start cancels
            present, absent = (
                np.logaddexp.reduce(joint[paths[t + 1] == value]) for value in (1, 0)
            )
            expected = log_expit(present - absent)
            np.testing.assert_allclose(states(net, x)[t, unit], expected, rtol=1e-10, atol=1e-10)


def test_unit_wise_unit_is_the_authors_formula() -> None:
    net, x = single("ubru")
    net.as_probability = True
    with torch.no_grad():
        ratio = np.exp(-net.W(x).numpy())  # theirs is p(x|absent) / p(x|present)
        p1, p2 = (torch.sigmoid(p)[0].numpy() for p in (net.cell.stay, net.cell.enter))
    h = np.full(4, 0.5)
    for t in range(T):
        p = p1 * h + p2 * (1 - h)
        h = p / (p + ratio[t] * (1 - p))
        np.testing.assert_allclose(states(net, x)[t], h, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [u for u in UNITS if is_probabilistic(u)], ids=name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_probabilities_stay_probabilities(unit: dict[str, Any], dtype: torch.dtype) -> None:
    net = layer(**unit, norm="none", hand_on="prob").to(dtype)
    x = (1e3 * torch.randn(2000, 3)).to(dtype)
    p = net(x, PackedFrames((1500, 500)))
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("unit", ["bru", "li-bru", "lstm", "rnn", "ubru"])
def test_initial_state_can_be_trained(unit: str) -> None:
    fixed = layer(unit=unit, norm="none")
    torch.manual_seed(1)
    trained = layer(unit=unit, norm="none", initial_state="trained")
    with torch.no_grad():
        for key, value in fixed.state_dict().items():
            trained.state_dict()[key].copy_(value)
        trained.initial.zero_()
    x, frames = batch()
    assert torch.equal(fixed(x, frames), trained(x, frames))
    trained(x, frames).square().sum().backward()
    assert trained.initial.grad.abs().min() > 0
    assert torch.autograd.gradcheck(
        lambda *_: trained(x, frames), tuple(trained.parameters()), fast_mode=True
    )


@pytest.mark.parametrize(
    ("unit", "options", "message"),
    [
        ("gru2", {}, "unit is gru2; known units: rnn, bru, li-bru"),
        ("bru", {"form": "geometric"}, "form of bru is geometric; its forms are prob, log"),
        ("gru", {"form": "log"}, "form of gru is log; it has one form only"),
        ("li-bru", {"peepholes": True}, "li-bru has no peepholes; its options: form"),
        ("lstm", {"smooth": True}, "lstm has no smooth; its options: peepholes"),
        ("rnn", {"activation": "swish"}, "activation is swish; known: tanh, sigmoid, relu"),
        ("rnn", {"activation_trains": ["eta"]}, "activation tanh has no parameters"),
    ],
)
def test_what_a_unit_does_not_know_is_refused_with_what_it_knows(
    unit: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build_cell(unit, 4, 1, options)


def test_units_without_probabilities_hand_none_on() -> None:
    with pytest.raises(InputError, match="li-gru computes no probabilities"):
        layer(unit="li-gru", hand_on="prob")


# batch-opposed negates the first gate, which is the evidence where transitions are trained.
@pytest.mark.parametrize("norm", [norm for norm in NORMS if norm != "batch-opposed"])
@pytest.mark.parametrize("smooth", [False, True])
def test_gates_begin_where_trained_transitions_do(norm: str, smooth: bool) -> None:
    """Behind every norm, shared by gates or not; the norm of a gate that reads nothing is 0."""
    trained, gated = (
        recurrent_layer(3, 4, "ubru", {"transitions": t, "smooth": smooth}, norm=norm).double()
        for t in ("trained", "from-input")
    )
    with torch.no_grad():
        for theirs, mine in zip(trained.W.parameters(), gated.W.parameters(), strict=True):
            of_gates = mine.zero_().view(2, 3, 4, -1)  # sets, gates, units
            of_gates[:, 2] = theirs.view(2, 4, -1)
    x, frames = batch()
    torch.testing.assert_close(gated(x, frames), trained(x, frames), rtol=0, atol=1e-12)
