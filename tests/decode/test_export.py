"""Exported networks: ONNX Runtime and torch.export compute what `bayes_asr.load` does."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.features import front_end
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation, cmvn_statistics
from bayes_asr.decode.export import OLDEST_TORCH, export_onnx, export_torch
from bayes_asr.decode.forward import exportable
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.runs.trained_network import TrainedNetwork
from tests.house.test_promises import untrained_run
from tests.support.nn_units import CAUSAL, DIRECTIONS, UNITS, model, name, side_by_side
from tests.support.places import ROOT
from tests.support.small_corpus import DIMENSIONS, settings, write_corpus

pytest.importorskip("torch", OLDEST_TORCH)
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("quick_onnx")
WIDTH, PDFS, BOUND = 3, 4, 1e-4
LENGTHS = (1, 2, 60)
PARAMETERISED = [
    {"unit": unit, "options": {"activation": activation, "activation_trains": trains}}
    for unit in ("li-gru", "mlp")
    for activation, trains in (
        ("p-sigmoid", ["eta"]),
        ("p-sigmoid", ["eta", "gamma", "theta"]),
        ("p-relu", ["alpha"]),
        ("p-relu", ["alpha", "beta"]),
    )
]
FORMS = [
    {"norm": "layer", "bidirectional": True, "initial_state": "trained"},
    {"norm": "none", "bidirectional": True, "tied_directions": True},
    {"norm": "batch-shared", "bidirectional": False, "dropout_scaling": "inverted"},
    {"hand_on": "prob", "bidirectional": True},
]


def loaded(net: AcousticModel) -> LogLikelihoods:
    """A network with random statistics and priors, whose states do not grow without bound."""
    rng = np.random.default_rng(5)
    mean, deviation = rng.normal(size=WIDTH), rng.uniform(0.5, 2, WIDTH)
    measured = Normalisation(mean.astype(np.float32), deviation.astype(np.float32))
    for layer in net.layers:
        if getattr(layer, "V", None) is not None:  # their rounding would grow with them
            layer.V.data.mul_(0.3)
    priors = torch.log_softmax(torch.arange(float(PDFS), dtype=torch.float64), 0)
    return LogLikelihoods(TrainedNetwork(net, {FEATURES: FrontEnd(normalisation=measured)}, priors))


def network(**options: Any) -> LogLikelihoods:
    """A small one with random weights."""
    return loaded(model(WIDTH, PDFS, **{"dropout": 0.3, **options}))


def layers(*options: dict[str, Any], **common: Any) -> LogLikelihoods:
    """Small layers with random weights, side by side: one export takes less time than many."""
    shared = {"dropout": 0.3, **ONE, **common}
    return loaded(side_by_side([model(WIDTH, PDFS, **{**shared, **each}) for each in options]))


def made_up(frames: int, width: int = WIDTH, scale: float = 2.0) -> np.ndarray:
    """Features [T, F]."""
    noise = np.random.default_rng(frames).standard_normal((frames, width))
    return (scale * noise).astype(np.float32)


def session(net: LogLikelihoods, folder: Path, **options: bool) -> Any:
    export_onnx(net, folder / "network.onnx", **options)
    return onnxruntime.InferenceSession(folder / "network.onnx")


def check_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=BOUND, strict=True)


def check_utterances(net: LogLikelihoods, folder: Path, width: int = WIDTH) -> None:
    """One file takes utterances of any length, and gives what `load` gives."""
    runtime = session(net, folder)
    for frames in LENGTHS:
        x = made_up(frames, width)
        (found,) = runtime.run(["loglikes"], {"features": x})
        check_close(found, net(x).numpy())


def steps(runtime: Any, chunks: Sequence[np.ndarray]) -> np.ndarray:
    """Log-likelihoods of an utterance, chunk by chunk, on states that begin as garbage."""
    names = [given.name for given in runtime.get_inputs()[2:]]
    states = [np.full(given.shape, 9, np.float32) for given in runtime.get_inputs()[2:]]
    found = []
    for number, chunk in enumerate(chunks):
        given = {"features": chunk, "begins": np.array(number == 0)}
        loglikes, *states = runtime.run(None, given | dict(zip(names, states, strict=True)))
        found.append(loglikes)
    return np.concatenate(found)


def check_steps(net: LogLikelihoods, folder: Path, width: int = WIDTH) -> None:
    """Frames one by one, and chunks, give what the whole utterance gives; so does the next one."""
    runtime = session(net, folder, step=True)
    for frames in LENGTHS:
        x = made_up(frames, width)
        for cuts in ([*range(1, frames)], [frames // 3] if frames > 2 else []):
            found = steps(runtime, np.split(x, cuts))
            check_close(found, net(x).numpy())


def check_program(net: LogLikelihoods, folder: Path, width: int = WIDTH) -> None:
    """The same of a program of torch.export that was written and read."""
    export_torch(net, folder / "network.pt2", step=True)
    step = torch.export.load(folder / "network.pt2").module()
    states = [torch.full_like(state, 9).float() for layer in net.model.begin() for state in layer]
    x, found = made_up(9, width), []
    for number, chunk in enumerate(np.split(x, [1, 4])):
        loglikes, states = step(torch.from_numpy(chunk), torch.tensor(number == 0), states)
        found.append(loglikes)
    check_close(torch.cat(found).numpy(), net(x).numpy())


@pytest.mark.slow
def test_li_bru_in_both_directions_gives_what_load_gives(tmp_path: Path) -> None:
    check_utterances(network(unit="li-bru", initial_state="trained"), tmp_path)


@pytest.mark.slow
def test_lstm_step_by_step_gives_what_the_whole_gives(tmp_path: Path) -> None:
    """It has two states, and trained ones here; those of the first frame are ignored."""
    options = {"unit": "lstm", "options": {"peepholes": True}}
    check_steps(network(**options, bidirectional=False, initial_state="trained"), tmp_path)


ONE: dict[str, Any] = {"units": (4,)}  # a layer: what each more of them adds is export time
ONCE = [u for u in UNITS if u["options"].get("activation", "tanh") == "tanh"]
"""Every option of every unit but activations."""
COMPLEMENT = {"unit": "bru", "options": {"form": "complement"}}
BLOCKS = {"unit": "lstm", "options": {"cells_per_block": 2}}
PLAINLY = [{**u, "unit": "mlp"} for u in UNITS if u["unit"] == "li-gru"]
"""All activations, which are exported alike in all units, in the one that takes least time."""


def pairs(form: dict[str, Any]) -> set[Any]:
    """Every two choices that meet in a form: the unit and the value of an option, or two values."""
    return set(combinations([form["unit"], *form["options"].items()], 2))


def meetings(forms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """So many of the forms that what meets in one of all meets in one of these."""
    left, chosen = set[Any]().union(*map(pairs, forms)), []
    while left:
        chosen.append(max(forms, key=lambda form: len(pairs(form) & left)))
        left -= pairs(chosen[-1])
    return chosen


ALONE = [form for form in ONCE if not form["options"]]
EXPORTED = [*ALONE, *meetings(ONCE), *PLAINLY, *PARAMETERISED, BLOCKS]
OFTEN = {u for u, number in Counter(form["unit"] for form in EXPORTED).items() if number > 1}
"""Units of several forms; the others are exported together, which takes less time."""
STEPPED = [*CAUSAL[::4], *PARAMETERISED[-1:], BLOCKS]


@pytest.mark.slow
@pytest.mark.parametrize("unit", sorted(OFTEN))
def test_every_unit_gives_what_load_gives(unit: str, tmp_path: Path) -> None:
    """Forwards: what a second direction adds is the same for all units."""
    forms = [form for form in EXPORTED if form["unit"] == unit]
    check_utterances(layers(*forms, bidirectional=False), tmp_path)


@pytest.mark.slow
def test_units_of_one_form_give_what_load_gives(tmp_path: Path) -> None:
    forms = [form for form in EXPORTED if form["unit"] not in OFTEN]
    check_utterances(layers(*forms, bidirectional=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_units_step_by_step_gives_what_the_whole_gives(part: int, tmp_path: Path) -> None:
    check_steps(layers(*STEPPED[part::3], bidirectional=False), tmp_path)


@pytest.mark.slow
def test_every_form_of_a_layer_gives_what_load_gives(tmp_path: Path) -> None:
    check_utterances(layers(*FORMS, unit="bru"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["li-bru", "ubru"])
def test_large_inputs_do_not_overflow(unit: str, tmp_path: Path) -> None:
    """Sums of probabilities whose logarithms are beyond the range of exp."""
    net = network(unit=unit, bidirectional=False)
    x = made_up(40, scale=300)
    (found,) = session(net, tmp_path).run(None, {"features": x})
    expected = net(x).numpy()
    assert np.abs(expected).max() > 20
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=BOUND)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 1)])
@pytest.mark.parametrize("frames", [1, 2, 30])
def test_plain_context_is_that_of_the_front_end(
    order: int, left: int, right: int, frames: int
) -> None:
    x, shape = made_up(frames), {"order": order, "left": left, "right": right}
    found = exportable.append_context(torch.from_numpy(x), **shape)
    expected = front_end.append_context(x, **shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-6, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("directions", DIRECTIONS, ids=name)
def test_plain_form_can_be_exported(directions: dict[str, bool]) -> None:
    net = network(unit="gru", **ONE, **directions)
    frames = {0: Dim("frames", min=1)}
    program = torch.export.export(net.plain(), (torch.zeros(5, WIDTH),), dynamic_shapes=(frames,))
    for length in LENGTHS:
        x = made_up(length)
        found = program.module()(torch.from_numpy(x))
        torch.testing.assert_close(found, net(x), rtol=0, atol=BOUND)


@pytest.mark.slow
@pytest.mark.parametrize("form", [{"unit": "mlp"}, {"unit": "lstm"}, COMPLEMENT], ids=str)
def test_a_step_of_torch_export_can_be_read_and_run(form: dict[str, Any], tmp_path: Path) -> None:
    check_program(network(**form, **ONE, bidirectional=False), tmp_path)


# --- the command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    """A run with everything on, that reads forwards only."""
    options = ["features.cmvn=mean-variance", "features.deltas=1", "features.left_context=3"]
    options += ["features.right_context=1", "model.bidirectional=false", f"data.dir={small_corpus}"]
    folder = tmp_path_factory.mktemp("export") / "run"
    return untrained_run(folder, DIMENSIONS * 2 * 5, 6, *options, bidirectional=False)


def command(*arguments: object) -> int:
    return main([*map(str, arguments)])


@pytest.mark.slow
@pytest.mark.parametrize("step", [False, True], ids=["utterance", "step"])
def test_exported_run_computes_a_set_as_the_run_does(run: Path, step: bool, tmp_path: Path) -> None:
    file = tmp_path / "network.onnx"
    assert command("export", run, "--onnx", file, *(["--step"] if step else [])) == 0
    about = onnxruntime.InferenceSession(file).get_modelmeta()
    width = DIMENSIONS * 10 if step else DIMENSIONS
    found = about.custom_metadata_map
    assert (found["unit"], found["features"], found["pdfs"]) == ("li-bru", str(width), "6")
    assert json.loads(found["front_end"])["cmvn"] == "mean-variance"
    assert (about.producer_name, found["bayes_asr"]) == ("bayes_asr", bayes_asr.__version__)
    assert b".py" not in file.read_bytes()  # no paths of the machine that it was made on
    outs = [tmp_path / "torch", tmp_path / "onnx"]
    assert command("forward", run, "--on=dev", f"--out={outs[0]}") == 0
    assert command("forward", run, "--on=dev", f"--out={outs[1]}", "--onnx", file) == 0
    expected, by_runtime = (dict(iter_matrices(out / "loglikes.scp")) for out in outs)
    assert by_runtime.keys() == expected.keys()
    for utt, loglikes in expected.items():
        np.testing.assert_allclose(by_runtime[utt], loglikes, rtol=0, atol=BOUND)


@pytest.mark.slow
def test_program_of_torch_export_is_read_without_this_package(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "network.pt2"
    assert command("export", run, "--torch", file) == 0
    about = {"network.json": ""}
    program = torch.export.load(file, extra_files=about).module()
    assert json.loads(about["network.json"])["pdfs"] == "6"
    net = bayes_asr.load(run)
    for frames in LENGTHS:
        x = made_up(frames, DIMENSIONS)
        stats = cmvn_statistics([x])
        found = program(torch.from_numpy(net.front_ends[FEATURES].normalise_speaker(x, stats)))
        torch.testing.assert_close(found, net(x, stats), rtol=0, atol=BOUND)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torchscript_of_a_feed_forward_run(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "run", DIMENSIONS, 6, unit="mlp")
    file = tmp_path / "network.pt"
    assert command("export", run, "--torchscript", file) == 0
    script, net = torch.jit.load(file), bayes_asr.load(run)
    for frames in LENGTHS:
        x = made_up(frames, DIMENSIONS)
        torch.testing.assert_close(script(torch.from_numpy(x)), net(x), rtol=0, atol=BOUND)


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """Writers of torch end the process where a write fails: they write to memory."""
    large = "network: File too large; raise the limit"
    forms = {"--torch": large, "--torchscript": large, "--onnx": large}
    forms["--quantize --onnx"] = "folded.onnx: cannot be written: "
    run = untrained_run(tmp_path / "run", DIMENSIONS, 6, unit="mlp")
    file = tmp_path / "network"
    file.write_text("before")
    limited = (
        "import resource as r, sys; from bayes_asr.cli import main;"
        "r.setrlimit(r.RLIMIT_FSIZE, (300, 300)); print([main(w.split()) for w in sys.argv[1:]])"
    )
    words = [f"export {run} {form} {file}" for form in forms]
    ended = subprocess.run(
        [sys.executable, "-c", limited, *words], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.stdout == "[1, 1, 1, 1]\n", ended.stderr
    assert "Traceback" not in ended.stderr
    errors = [line for line in ended.stderr.splitlines() if line.startswith("bayes-asr export: ")]
    for error, message in zip(errors, forms.values(), strict=True):
        assert message in error
    assert file.read_text() == "before"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--torchscript", "FILE"], "use torch.export or ONNX"),
        (["--torchscript", "FILE", "--step"], "--step is for --onnx and --torch"),
        (["--torch", "FILE", "--quantize"], "--quantize is for --onnx"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(
    run: Path,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(tmp_path / "out") if option == "FILE" else option for option in options]
    assert command("export", run, *given) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_step_of_a_network_that_reads_backwards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.bidirectional: false"):
        export_onnx(network(unit="bru"), tmp_path / "network.onnx", step=True)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"no model", [], "not an ONNX model of bayes-asr export"),
        (b"", ["--chunk=3"], "goes without --chunk and --counts"),
    ],
)
def test_forward_refuses_other_files_in_one_line(
    run: Path,
    content: bytes,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "other.onnx"
    file.write_bytes(content)
    given = ["--on=dev", f"--out={tmp_path / 'out'}", "--onnx", file, *options]
    assert command("forward", run, *given) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_forward_by_onnx_refuses_sound_that_was_analysed_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As without: the file does not say what made its features."""
    root = write_corpus(tmp_path)
    for part, kind in (("train", "mfcc"), ("dev", "mfcc"), ("test", "plp")):
        (root / "data" / part / "frontend.json").write_text(json.dumps({"kind": kind}))
    given = (ROOT / "conf/base.yaml", *settings(root, "train.epochs=1"))
    assert command("train", *given, "--out", tmp_path / "run") == 0
    assert command("export", tmp_path / "run", "--onnx", tmp_path / "run.onnx") == 0
    given = (f"--data={root}/data/test", "--onnx", tmp_path / "run.onnx")
    assert command("forward", tmp_path / "run", *given, "--out", tmp_path / "out") == 1
    assert "kind plp, but those of training mfcc" in capsys.readouterr().err
