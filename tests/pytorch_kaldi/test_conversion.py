"""Weights of pytorch-kaldi in our layers: the same outputs as its equations, and as its classes."""

import itertools
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.nn.frames import pack, unpack
from bayes_asr.nn.network import AcousticModel
from bayes_asr.pytorch_kaldi.experiment import read_experiment
from bayes_asr.pytorch_kaldi.networks import convert_networks
from bayes_asr.pytorch_kaldi.translation import translate
from bayes_asr.pytorch_kaldi.weights import read_weights
from bayes_asr.train.components import architecture
from bayes_asr.train.imported_weights import load_weights
from tests.support import their_cfg, their_networks
from tests.support.places import CONF
from tests.support.their_networks import GATES, INPUTS

FORMS = [
    {"batch_norm": norm, "bidirectional": both, "activation": activation, "dropout": 0.2}
    for norm, both, activation in itertools.product((True, False), (True, False), ("tanh", "relu"))
]
CASES = [
    (kind, form)
    for kind, form in itertools.product(GATES, FORMS)
    if kind != "LSTM" or form["activation"] == "tanh"
]
LENGTHS = (9, 1, 6)
PDFS = 3
NORMS = [("", ""), ("bn", "ln0"), ("ln", "bn0")]
HEAD = {
    "dnn_lay": "N_out_lab_cd",
    "dnn_drop": "0.0",
    "dnn_act": "softmax",
    **{f"dnn_use_{name}": "False" for name in ("batchnorm", "laynorm")},
    **{f"dnn_use_{name}_inp": "False" for name in ("batchnorm", "laynorm")},
}


def name(case: object) -> str:
    if isinstance(case, Mapping):
        return "-".join(str(value) for value in case.values())
    return str(case)


def save(path: Path, state: dict[str, Any]) -> Path:
    """A file as core.py writes it."""
    optimizer = torch.optim.RMSprop([torch.nn.Parameter(torch.ones(1))]).state_dict()
    torch.save({"model_par": state, "optimizer_par": optimizer}, path)
    return path


def ours(
    folder: Path,
    inputs: int,
    kind: str,
    options: dict[str, str],
    state: dict[str, Tensor],
    presets: Sequence[Path] = (),
) -> tuple[AcousticModel, Tensor, Tensor]:
    """Our network of one of theirs and a head, in evaluation; weights and bias of the head."""
    cfg = their_cfg.write_networks(folder, (kind, options), ("MLP", HEAD))
    translation = translate(read_experiment(cfg))
    (folder / "ours.yaml").write_text(yaml.safe_dump(translation.keys))
    config = load([*presets, folder / "ours.yaml"])
    model = AcousticModel(**architecture(config.model, {"features": inputs}, {"pdfs": PDFS}))
    weight, bias = torch.randn(PDFS, model.sizes[model.top]), torch.randn(PDFS)
    head = {"wx.0.weight": weight, "wx.0.bias": bias}
    files = [save(folder / "final_architecture1.pkl", state)]
    files.insert(0, save(folder / "final_architecture2.pkl", head))  # in any order
    states = convert_networks(translation.origins, files)
    for part_name, part in model.parts.items():
        load_weights(part_name, part, states[part_name])
    return model.eval(), weight, bias


def check(
    model: tuple[AcousticModel, Tensor, Tensor], utterances: list[Tensor], expected: list[Tensor]
) -> None:
    """Compare logits of utterances [T, F] with those of what theirs computes below the head."""
    network, weight, bias = model
    x_NF, frames, order = pack(utterances)
    with torch.no_grad():
        found = unpack(network({"features": x_NF}, frames)["pdfs"], frames, order)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other @ weight.T + bias, rtol=0, atol=1e-5)


def compute_by_their_class(
    kind: str, options: dict[str, str], state: dict[str, Tensor], inputs: int, xs: list[Tensor]
) -> list[Tensor]:
    library = their_networks.load_theirs()
    # configparser gives names of options in small letters, and has all of them
    given = {**options, "use_cuda": "False", "to_do": "forward"}
    given |= {key.replace("_n_filt", "_N_filt"): value for key, value in options.items()}
    theirs = getattr(library, kind)(given, inputs).eval()
    theirs.load_state_dict(state)
    sequences = kind in (*GATES, *TORCHS)
    with torch.no_grad():
        return [theirs(x[:, None])[:, 0] if sequences else theirs(x) for x in xs]


@pytest.mark.parametrize("oracle", ["equations", "their code"])
@pytest.mark.parametrize(("kind", "form"), CASES, ids=name)
def test_our_recurrent_layers_give_what_theirs_give(
    kind: str, form: dict[str, Any], oracle: str, tmp_path: Path
) -> None:
    shape = {key: form[key] for key in ("batch_norm", "bidirectional")}
    state = their_networks.make_up(kind, **shape)
    options = their_networks.options(kind, **form)
    utterances = [torch.randn(frames, INPUTS) for frames in LENGTHS]
    if oracle == "equations":
        expected = [their_networks.compute(kind, state, x, **form) for x in utterances]
    else:
        expected = compute_by_their_class(kind, options, state, INPUTS, utterances)
    check(ours(tmp_path, INPUTS, kind, options, state), utterances, expected)


TORCHS = {"LSTM_cudnn": torch.nn.LSTM, "GRU_cudnn": torch.nn.GRU, "RNN_cudnn": torch.nn.RNN}


@pytest.mark.parametrize("oracle", ["torch", "their code"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("kind", TORCHS)
def test_the_cudnn_classes_give_what_torchs_modules_give(
    kind: str, bidirectional: bool, bias: bool, oracle: str, tmp_path: Path
) -> None:
    torch.manual_seed(len(kind))
    more = {"nonlinearity": "relu"} if kind == "RNN_cudnn" else {}
    reference = TORCHS[kind](INPUTS, 4, 2, bias=bias, bidirectional=bidirectional, **more)
    name = kind.removesuffix("_cudnn").lower()
    state = {f"{name}.0.{key}": p.detach() for key, p in reference.named_parameters()}
    options = {
        "hidden_size": "4",
        "num_layers": "2",
        "bias": str(bias),
        "batch_first": "True",
        "dropout": "0.2",
        "bidirectional": str(bidirectional),
        **more,
    }
    utterances = [torch.randn(frames, INPUTS) for frames in LENGTHS]
    if oracle == "torch":
        with torch.no_grad():
            expected = [reference(x)[0] for x in utterances]
    else:
        expected = compute_by_their_class(kind, options, state, INPUTS, utterances)
    check(ours(tmp_path, INPUTS, kind, options, state), utterances, expected)


@pytest.mark.parametrize("oracle", ["equations", "their code"])
@pytest.mark.parametrize(("norm", "input_norm"), NORMS)
def test_an_mlp_keeps_its_bias_where_the_norm_does(
    norm: str, input_norm: str, oracle: str, tmp_path: Path
) -> None:
    """Theirs has a bias in front of every norm, also in front of one that takes it away."""
    state = their_networks.make_up_layers("wx", [(4, INPUTS, 0), (3, 4, 0)], INPUTS, bias=True)
    state = their_networks.keep(state, input_norm)
    options = their_networks.feed_forward_options("dnn", norm, input_norm, lay="4,3")
    utterances = [torch.randn(frames, INPUTS) for frames in LENGTHS]
    if oracle == "equations":
        expected = [their_networks.compute_mlp(state, x, norm, input_norm) for x in utterances]
    else:
        expected = compute_by_their_class("MLP", options, state, INPUTS, utterances)
    for presets in ([], [CONF / "pytorch-kaldi.yaml"]):
        found = ours(tmp_path, INPUTS, "MLP", options, state, presets)
        check(found, utterances, expected)


MAPS = {  # weights of two layers of 24 inputs, with the size of each map; kernels; pooling
    "CNN": ([(4, 1, 6, 9), (3, 4, 3, 3)], (6, 3), (2, 2)),
    "SincNet": ([(4, 10), (3, 4, 3, 4)], (5, 3), (2, 2)),
}


@pytest.mark.parametrize("oracle", ["equations", "their code"])
@pytest.mark.parametrize(("norm", "input_norm"), NORMS)
@pytest.mark.parametrize("kind", MAPS)
def test_our_convolutions_give_what_theirs_give(
    kind: str, norm: str, input_norm: str, oracle: str, tmp_path: Path
) -> None:
    shapes, kernels, pools = MAPS[kind]
    state = their_networks.make_up_layers("conv", shapes, 24, bias=True)
    state = their_networks.keep(state, input_norm)
    prefix = {"CNN": "cnn", "SincNet": "sinc"}[kind]
    sizes = {
        "n_filt": "4,3",
        "len_filt": ",".join(map(str, kernels)),
        "max_pool_len": ",".join(map(str, pools)),
    }
    if kind == "SincNet":
        sizes |= {"sample_rate": "1000", "min_low_hz": "50", "min_band_hz": "50"}
    options = their_networks.feed_forward_options(prefix, norm, input_norm, **sizes)
    utterances = [torch.randn(frames, 24) for frames in LENGTHS]
    if oracle == "equations":
        of = {"kernels": kernels, "pools": pools}
        expected = [
            their_networks.compute_maps(state, x, norm, input_norm, **of) for x in utterances
        ]
    else:
        expected = compute_by_their_class(kind, options, state, 24, utterances)
    check(ours(tmp_path, 24, kind, options, state), utterances, expected)


# --- what is refused


class Harm:
    """What a hostile file would run."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("open('executed', 'w')",))


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_nothing_in_a_file_is_executed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "n.pkl"
    if form == "torch":
        torch.save({"model_par": {"wh.0.weight": Harm()}}, path)
    else:
        path.write_bytes(pickle.dumps({"model_par": Harm()}, protocol=2))
    with pytest.raises(InputError, match=r"n.pkl: "):
        read_weights(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {}}, "has no model_par"),
        ([], "has no model_par"),
        ({"model_par": {}}, "has layers none"),
        ({"model_par": {"wh.1.weight": torch.ones(1)}}, "has layers 1"),
        ({"model_par": {"wh.0.weight": torch.tensor([1, torch.nan])}}, "wh.0.weight has numbers"),
        ({"model_par": {"wh.0.weight": 3}}, "wh.0.weight is no tensor"),
        ({"model_par": {"fc.weight": torch.ones(1)}}, "fc.weight is no tensor of a layer"),
    ],
)
def test_other_files_are_named(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "n.pkl")
    with pytest.raises(InputError, match=message):
        read_weights(tmp_path / "n.pkl")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    state = their_networks.make_up("RNN", batch_norm=True, bidirectional=True)
    path = save(tmp_path / "n.pkl", state)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"n.pkl: cannot be read as a file of pytorch-kaldi"):
        read_weights(path)
    with pytest.raises(InputError, match=r"gone.pkl: not there"):
        read_weights(tmp_path / "gone.pkl")


def test_data_parallel_names_are_the_same_network(tmp_path: Path) -> None:
    state = their_networks.make_up("liGRU", batch_norm=True, bidirectional=True)
    plain = read_weights(save(tmp_path / "a.pkl", state))
    parallel = {f"module.{name}": tensor for name, tensor in state.items()}
    found = read_weights(save(tmp_path / "b.pkl", parallel))
    assert [set(one) for one in found.layers] == [set(one) for one in plain.layers]


def ligru(**changes: Any) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Options and weights of a Li-GRU; changes: of options."""
    form = {"batch_norm": True, "bidirectional": True, "activation": "tanh", "dropout": 0.2}
    state = their_networks.make_up("liGRU", batch_norm=True, bidirectional=True)
    return {**their_networks.options("liGRU", **form), **changes}, state


CUDNN = {"hidden_size": "4", "num_layers": "2", "bias": "True", "dropout": "0"}
CUDNN |= {"bidirectional": "False"}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("liGRU", {"ligru_use_laynorm": "True,False"}, r"layer 1 has two norms"),
        (
            "liGRU",
            {"ligru_use_laynorm": "True,False", "ligru_use_batchnorm": "False,True"},
            r"\[architecture1\] net1: layer 1 normalises its state",
        ),
        (
            "liGRU",
            {"ligru_lay": "6,3"},
            r"wz.weight of layer 1 is \[4, 5\], but .* says \[6, any\]",
        ),
        ("GRU", {}, r"layer 1 has no wr.weight; was the class another"),
        ("GRU_cudnn", CUDNN, r"layer 1 has no weight_hh; was the class another"),
        ("liGRU", {"ligru_use_laynorm_inp": "True"}, r"there is no ln0.gamma"),
        ("LSTM", {"ligru_act": "relu,tanh"}, r"layer 1 has the activation relu, and LSTM has tanh"),
    ],
)
def test_what_does_not_fit_is_named(
    kind: str, changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    options, state = ligru(**changes)
    prefix = their_networks.PREFIX.get(kind, "ligru")
    options = {key.replace("ligru", prefix): v for key, v in options.items()}
    with pytest.raises(InputError, match=message):
        ours(tmp_path, INPUTS, kind, options, state)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["final_architecture1.pkl"], r"no file of net2 \(architecture2\); .*final_architecture2"),
        (["a_architecture1.pkl", "b_architecture1.pkl"], "architecture1 is also"),
        (["final_architecture1.pkl", "x_architecture3.pkl"], "x_architecture3.pkl: of which"),
        (["one.pkl", "two.pkl", "three.pkl"], "one.pkl: of which network is it"),
    ],
)
def test_files_are_those_of_the_networks(names: list[str], message: str, tmp_path: Path) -> None:
    options, state = ligru()
    cfg = their_cfg.write_networks(tmp_path, ("liGRU", options), ("MLP", HEAD))
    origins = translate(read_experiment(cfg)).origins
    files = [save(tmp_path / name, state) for name in names]
    with pytest.raises(InputError, match=message):
        convert_networks(origins, files)


def test_a_file_of_more_layers_is_of_another_training(tmp_path: Path) -> None:
    options, state = ligru()
    state["wz.2.weight"] = torch.ones(3, 3)
    with pytest.raises(InputError, match=r"has 3 layers, but \[architecture1\] net1 has 2"):
        ours(tmp_path, INPUTS, "liGRU", options, state)


def test_weights_of_other_data_do_not_fit() -> None:
    part = torch.nn.Linear(4, 3)
    state = {"weight": torch.ones(5, 4), "bias": torch.ones(3)}
    with pytest.raises(InputError, match=r"pdfs: weight is \[5, 4\] in the files, but \[3, 4\]"):
        load_weights("pdfs", part, state)
    with pytest.raises(InputError, match="pdfs: the files have no bias"):
        load_weights("pdfs", part, {"weight": torch.ones(3, 4)})
