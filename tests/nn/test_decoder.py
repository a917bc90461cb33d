"""Decoders against their equations in NumPy, differences, and themselves in other company."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.nn.attention import Attention
from bayes_asr.nn.decoder import AttentionDecoder
from bayes_asr.nn.encoder_decoder import EncoderDecoder
from bayes_asr.nn.frames import END, DecoderTargets, PackedFrames, pack
from bayes_asr.nn.network import AcousticModel, build_network
from bayes_asr.nn.part import extract_head, extract_layer
from bayes_asr.train.components import architecture

INPUTS, STREAM = 12, "features"

SIZE, WIDTH = 5, 6
ATTENTIONS = ("none", "lecture", "dot", "additive", "location")
LABELS = [[1, 4, 2], [3], [], [2, 2, 1, 4, 3]]
LENGTHS = (4, 9, 1, 6)


def decoder(
    attention: str, unit: str = "gru", dropout: float = 0.0, directions: int = 2
) -> AttentionDecoder:
    torch.manual_seed(5)
    sizes = {"units": 4, "embedding": 3, "attention_units": 5}
    built = AttentionDecoder(
        WIDTH, 2, 7, SIZE, unit=unit, attention=attention, dropout=dropout, **sizes
    ).double()
    for parameter in built.parameters():
        parameter.data.normal_(std=0.7)
    return built


def encoded() -> list[Tensor]:
    rng = np.random.default_rng(6)
    return [torch.from_numpy(rng.standard_normal((n, WIDTH))) for n in LENGTHS]


def tell(labels: Sequence[Sequence[int]], forced: Sequence[Sequence[bool]] = ()) -> DecoderTargets:
    """The labels of utterances that are in the order of their frames."""
    packed, steps, order = pack([torch.tensor([*one, END]) for one in labels])
    told = pack([torch.tensor(one) for one in forced])[0] if forced else None
    return DecoderTargets(packed, steps, order, told)


def compute(
    built: AttentionDecoder,
    chosen: Sequence[int],
    keys: Sequence[int] = (),
    forced: Callable[[int], list[bool]] | None = None,
) -> list[Tensor]:
    """The logits [L, P] of some utterances, computed together."""
    xs = encoded()
    packed, frames, order = pack([xs[i] for i in chosen])
    by_frames = [chosen[place] for place in order]
    told = tell([LABELS[i] for i in by_frames], [forced(i) for i in by_frames] if forced else ())
    keys_B = torch.tensor([keys[i] for i in by_frames]) if keys else None
    logits = built(packed, frames, told, keys_B)
    found: list[Tensor] = [logits] * len(chosen)
    for row, place in enumerate(told.order):
        mine = told.steps.sequence == row
        found[order[place]] = logits[mine]
    return found


def by_numpy(built: AttentionDecoder, h: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """The equations of `AttentionDecoder` and `Attention` for one utterance, with a GRU."""
    p = {name: value.detach().numpy() for name, value in built.named_parameters()}
    half = WIDTH // 2
    last = np.concatenate([h[-1, :half], h[0, half:]])
    s = p["b"] if built.attention else p["A.weight"] @ last + p["b"]
    context, a = np.zeros(WIDTH), np.zeros(len(h))
    found = []
    for before in [END, *labels]:
        x = p["embedding.weight"][before]
        if built.attention:
            x = np.concatenate([x, context])
        z, r, c = np.split(p["W.weight"] @ x + p["W.bias"], 3)
        V_z, V_r, V_c = np.split(p["V"][0], 3, axis=1)
        z, r = (1 / (1 + np.exp(-(one + s @ V))) for one, V in ((z, V_z), (r, V_r)))
        s = (1 - z) * s + z * np.tanh(c + (r * s) @ V_c)
        top = s
        if built.attention:
            a = attend_by_numpy(built.attention.kind, p, h, s, a)
            context = np.sum(a[:, None] * h, axis=0)
            top = np.concatenate([s, context])
        found.append(p["O.weight"] @ top + p["O.bias"])
    return np.array(found)


def attend_by_numpy(
    kind: str, p: dict[str, np.ndarray], h: np.ndarray, s: np.ndarray, before: np.ndarray
) -> np.ndarray:
    W, asked = p["attention.W.weight"], p["attention.Q.weight"] @ s
    scores = []
    for t, h_t in enumerate(h):
        if kind == "dot":
            scores.append((W @ h_t) @ asked)
            continue
        key = W @ h_t + p["attention.W.bias"]
        if kind == "lecture":
            scores.append(np.tanh(key) @ asked)
            continue
        if kind == "location":
            reach = Attention.REACH
            around = np.pad(before, reach)[t : t + 2 * reach + 1]
            key = key + p["attention.L.weight"] @ (p["attention.F.weight"][:, 0] @ around)
        scores.append(p["attention.v"] @ np.tanh(key + asked))
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_logits_are_those_of_the_equations(attention: str) -> None:
    built = decoder(attention)
    for found, h, labels in zip(compute(built, range(4)), encoded(), LABELS, strict=True):
        expected = by_numpy(built, h.numpy(), labels)
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("unit", ["li-bru", "lstm", "torch-gru", "ubru", "rnn"])
@pytest.mark.parametrize("attention", ["none", "location"])
def test_company_and_padding_change_nothing(unit: str, attention: str) -> None:
    """Nor do they in training, with masks and labels that are not told."""

    def forced(i: int) -> list[bool]:
        return [(i + k) % 2 == 0 for k in range(len(LABELS[i]) + 1)]

    for dropout, keys, told in ((0.0, (), None), (0.4, (11, 22, 33, 44), forced)):
        built = decoder(attention, unit, dropout)
        together = compute(built, range(4), keys, told)
        for i, found in enumerate(together):
            torch.testing.assert_close(
                compute(built, [i], keys, told)[0], found, rtol=0, atol=1e-12
            )
        reversed_ = compute(built, [3, 1, 0], keys, told)
        torch.testing.assert_close(reversed_[0], together[3], rtol=0, atol=1e-12)
        torch.testing.assert_close(reversed_[2], together[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_gradients_are_differences(attention: str) -> None:
    built, (first, *_, other) = decoder(attention), encoded()
    packed, frames, order = pack([first[:3], other[:2]])
    told = tell([[1, 2], [3]])
    names, values = zip(*built.named_parameters(), strict=True)

    def loss(x: Tensor, *given: Tensor) -> Tensor:
        parameters = dict(zip(names, given, strict=True))
        logits = torch.func.functional_call(built, parameters, (x, frames, told))
        return torch.nn.functional.cross_entropy(logits, told.labels_N)

    assert order == [0, 1]
    assert gradcheck(loss, (packed.requires_grad_(), *values), fast_mode=True)


def test_labels_that_are_not_told_are_the_most_probable_ones() -> None:
    """Free running is teacher forcing on what the decoder would have written."""
    built, (h, *_) = decoder("additive"), encoded()
    frames, labels = PackedFrames((len(h),)), LABELS[0]
    own = [END]
    for _ in labels:
        told = DecoderTargets(torch.tensor([*own[1:], END]), PackedFrames((len(own),)), [0])
        own.append(int(built(h, frames, told)[-1].argmax()))
    free = compute(built, [0], forced=lambda _: [False] * (len(labels) + 1))[0]
    told = DecoderTargets(torch.tensor([*own[1:], END]), PackedFrames((len(own),)), [0])
    torch.testing.assert_close(free, built(h, frames, told), rtol=0, atol=1e-12)
    assert own[1:] != labels
    half = compute(built, [0], forced=lambda _: [True, False, True, True])[0]
    mixed = DecoderTargets(
        torch.tensor([labels[0], int(half[1].argmax()), END]), PackedFrames((3,)), [0]
    )
    torch.testing.assert_close(half[:3], built(h, frames, mixed), rtol=0, atol=1e-12)
    assert int(half[1].argmax()) != labels[1]


def test_where_other_processes_have_all_utterances_there_is_nothing() -> None:
    none = torch.empty(0, dtype=torch.long)
    logits = decoder("location")(
        torch.empty(0, WIDTH).double(), PackedFrames(()), DecoderTargets(none, PackedFrames(()), [])
    )
    assert logits.shape == (0, SIZE)


def network(*settings: str) -> AcousticModel:
    """As a configuration makes it: a stride, a recurrent layer, a decoder on that."""
    stack = [
        {"name": "low", "kind": "conv1d", "channels": 5, "stride": 2},
        {"name": "top", "kind": "recurrent", "unit": "li-bru", "units": 3},
    ]
    given = (f"model.stack={stack}", "model.decoder.units=4", "data.sequences=text", *settings)
    model = load([], given).model
    torch.manual_seed(2)
    return (
        build_network(
            architecture(model, {STREAM: INPUTS}, {"sequence": SIZE})
            | {"decoder": vars(model.decoder)}
        )
        .double()
        .eval()
    )


def test_a_network_reads_frames_behind_strides_and_its_layer_of_both_directions() -> None:
    built = network("model.decoder.attention=location")
    assert isinstance(built, EncoderDecoder)
    xs = [torch.randn(n, INPUTS).double() for n in LENGTHS]
    packed, frames, order = pack(xs)
    told = tell([LABELS[i] for i in order])
    together = built({STREAM: packed}, frames, None, told)["sequence"]
    memory, _ = built.decoder.begin(
        built.hidden({STREAM: packed}, frames), built.output_frames(frames)
    )
    assert memory is not None
    assert memory.inside_BT.sum(1).tolist() == [-(-LENGTHS[i] // 2) for i in order]
    for row, place in enumerate(told.order):
        one, alone = xs[order[place]], tell([LABELS[order[place]]])
        logits = built({STREAM: one}, PackedFrames((len(one),)), None, alone)["sequence"]
        mine = together[told.steps.sequence == row]
        torch.testing.assert_close(logits, mine, rtol=0, atol=1e-12)
    assert built.decoder.last.directions == 2
    low = network("model.heads={sequence: low}", "model.stack=[{name: low, kind: conv1d}]")
    assert low.architecture["head_reads"] == {"sequence": "low"}
    assert build_network(low.architecture).decoder.last.directions == 1


def test_a_frozen_decoder_drops_nothing() -> None:
    built = network("model.decoder.dropout=0.5", "model.dropout=0.0")
    packed, frames, order = pack([torch.randn(n, INPUTS).double() for n in LENGTHS])
    keys, told = torch.arange(len(LENGTHS)), tell([LABELS[i] for i in order])
    dropped, kept = (built({STREAM: packed}, frames, k, told)["sequence"] for k in (keys, None))
    assert not torch.equal(dropped, kept)
    built.freeze(["sequence"])
    frozen = built({STREAM: packed}, frames, keys, told)["sequence"]
    torch.testing.assert_close(frozen, kept, rtol=0, atol=0)


def test_it_has_no_outputs_of_frames_but_layers() -> None:
    built = network()
    for refused in (lambda: extract_head(built, "sequence"), built.check_frames_labelled):
        with pytest.raises(InputError, match=r"no outputs of frames.* bayes-asr generate"):
            refused()
    assert extract_layer(built, "top").outputs == ()
    with pytest.raises(ValueError, match="is told"):
        built({STREAM: torch.zeros(3, INPUTS).double()}, PackedFrames((3,)))
