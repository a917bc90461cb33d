"""The choice of the path of a GPU, with paths that are wrong, slow, broken or not there."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes import group
from bayes_asr.config.catalogue import GPU_PATHS
from bayes_asr.kaldi_io.side_files import read_environment
from bayes_asr.nn.criteria import CrossEntropy
from bayes_asr.nn.kernels import dispatch
from bayes_asr.nn.kernels.reference import scan
from bayes_asr.nn.kernels.reference.scan import Recurrence
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train import gpu_paths, start
from bayes_asr.train.batch import Batch
from bayes_asr.train.gpu_paths import Rehearsal, choose_path, set_path
from bayes_asr.train.runs import record
from bayes_asr.train.start import train
from tests.support.nn_units import KEYS, acoustic_model, batch
from tests.support.processes import together
from tests.support.small_corpus import write_corpus
from tests.support.training_runs import assert_same, config_of, history_of, states

CARD, HEAD = "a card", "pdfs"


class Clock:
    """Seconds that pass when it is read, and when a path asks for it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def raising(error: Exception) -> Callable[[Recurrence], Tensor]:
    def unroll(recurrence: Recurrence) -> Tensor:
        raise error

    return unroll


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock, by which fake paths take their time."""
    clock = Clock()

    def taking(seconds: float) -> Callable[[Recurrence], Tensor]:
        def unroll(recurrence: Recurrence) -> Tensor:
            clock.now += seconds
            return scan.unroll(recurrence)

        return unroll

    fakes: dict[str, Callable[[Recurrence], Tensor]] = {
        "fast": taking(-0.01),
        "slow": taking(2.0),
        "wrong": lambda recurrence: scan.unroll(recurrence) * 1.01,
        "nan": lambda recurrence: scan.unroll(recurrence) * torch.nan,
        "broken": raising(RuntimeError("no such\ninstruction " + 100 * "x ")),
        "large": raising(torch.cuda.OutOfMemoryError("CUDA out of memory")),
    }
    paths = {"eager": "", "absent": "bayes_asr.nn.kernels.absent", "none": "fake_none"}
    for name, unroll in fakes.items():
        fake = SimpleNamespace(COMPILED=False, supports=lambda *_: True, unroll=unroll)
        paths[name] = f"fake_{name}"
        monkeypatch.setitem(sys.modules, f"fake_{name}", fake)
    none = SimpleNamespace(COMPILED=False, supports=lambda *_: False)
    monkeypatch.setitem(sys.modules, "fake_none", none)
    for module in (dispatch, gpu_paths):
        monkeypatch.setattr(module, "GPU_PATHS", paths)
    return clock


def small_model(**options: Any) -> AcousticModel:
    torch.manual_seed(1)
    return acoustic_model(3, [4], units=(4, 3), dropout=0.3, **options)


def rehearsal(model: AcousticModel, clock: Clock, *, bfloat16: bool = False) -> Rehearsal:
    x, frames = batch()
    labels = torch.arange(frames.count) % 4
    batches = [Batch({"features": x.float()}, frames, {HEAD: labels}, KEYS)] * 2
    criterion = CrossEntropy({HEAD: 1.0})
    return Rehearsal(model, criterion, batches, bfloat16=bfloat16, clock=clock)


def choose(
    model: AcousticModel,
    clock: Clock,
    recorded: dict[str, Any] | None = None,
    asked: str = "auto",
    card: str = CARD,
) -> Any:
    return choose_path(asked, model, card, recorded, lambda: rehearsal(model, clock))


def never() -> Rehearsal:
    raise AssertionError("nothing is to be measured")


@pytest.mark.parametrize("options", [{}, {"unit": "lstm", "norm": "layer"}, {"unit": "torch-gru"}])
def test_the_fastest_that_computes_the_same_is_taken_and_the_others_are_named(
    options: dict[str, Any], clock: Clock, messages: Any
) -> None:
    model = small_model(**options)
    found = choose(model, clock)
    assert (found["path"], found["card"]) == ("fast", CARD)
    speeds = found["frames_per_second"]
    assert sorted(speeds, key=speeds.get) == ["slow", "eager", "fast"]
    assert speeds["eager"] == 24  # two batches of 12 frames within a second
    faults = found["left_out"]
    assert faults["absent"] == "No module named 'bayes_asr.nn.kernels.absent'"
    assert faults["large"] == "CUDA out of memory"
    assert faults["wrong"].endswith("more than 0.01")
    assert faults["nan"].startswith("differs by nan")
    assert faults["broken"].endswith(" ...")
    assert set(faults) == {"absent", "large", "wrong", "nan", "broken"}
    (line,) = [line for line in messages().splitlines() if "GPU path" in line]
    assert "GPU path fast: frames/s fast " in line
    assert "; left out: absent (No module" in line
    json.dumps(found)


def test_bfloat16_is_allowed_what_the_eager_path_rounds(clock: Clock) -> None:
    model = small_model(norm="layer")
    speeds, faults = rehearsal(model, clock, bfloat16=True).try_paths(["fast", "nan"])
    assert set(speeds) == {"eager", "fast"}
    assert set(faults) == {"nan"}


@pytest.mark.parametrize("options", [{}, {"form": "log", "dropped_candidate": "mean"}])
def test_trials_leave_everything_as_it_was(options: dict[str, str], clock: Clock) -> None:
    model = small_model(options=options)
    trial = rehearsal(model, clock)
    model.eval()
    for module in model.modules():
        if hasattr(module, "all_reduce"):
            vars(module)["all_reduce"] = raising  # no other process is there to answer
    state = {key: value.clone() for key, value in model.state_dict().items()}
    random = torch.get_rng_state()
    assert set(trial.try_paths(["fast", "slow", "nan", "broken"])[0]) == {"eager", "fast", "slow"}
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    pooling = [m for m in model.modules() if hasattr(m, "all_reduce")]
    assert pooling
    assert all(vars(m)["all_reduce"] is raising for m in pooling)


def test_an_eager_path_that_lacks_memory_is_taken_without_trials(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    monkeypatch.setattr(Rehearsal, "_compute_exactly", raising(MemoryError("no")))
    found = choose(model, clock)
    assert (found["path"], found["frames_per_second"]) == ("eager", {})
    assert found["left_out"]["eager"] == "not enough memory: no"


def test_what_ends_all_work_on_a_card_ends_the_training(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = rehearsal(small_model(), clock)

    def synchronize(device: torch.device) -> None:
        if clock.now > 100:
            raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setattr(gpu_paths, "_synchronize", synchronize)

    def break_it(recurrence: Recurrence) -> Tensor:
        clock.now = 101
        raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setattr(sys.modules["fake_broken"], "unroll", break_it)
    with pytest.raises(InputError, match=r"path broken broke the GPU for .*_path to eager"):
        trial.try_paths(["broken", "fast"])


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absent", r"is absent, which does not run here: No module named .* or set it to auto"),
        ("none", r"is none, which computes no recurrence of this network; set it to auto"),
    ],
)
def test_a_path_that_is_asked_for_must_compute(path: str, said: str, clock: Clock) -> None:
    with pytest.raises(InputError, match=said):
        choose(small_model(), clock, asked=path)


def test_a_path_that_is_asked_for_is_not_measured(clock: Clock) -> None:
    model = small_model()
    for asked in ("slow", "eager"):
        found = choose_path(asked, model, CARD, None, never)
        assert found == {"path": asked, "card": CARD}
    # What was asked for is no measurement that a run goes on with.
    assert choose(model, clock, recorded=dict(found or {}))["path"] == "fast"


@pytest.mark.slow
def test_a_run_goes_on_with_its_path_on_the_same_card_alone(clock: Clock, messages: Any) -> None:
    model = small_model()
    measured = choose(model, clock)
    slow = {**measured, "path": "slow"}
    assert choose_path("auto", model, CARD, slow, never) == slow
    assert "GPU path slow, as was measured when this run was begun" in messages()
    elsewhere = choose(model, clock, recorded=slow, card="another card")
    assert (elsewhere["path"], elsewhere["card"]) == ("fast", "another card")
    assert "GPU path slow was measured on a card, and this is another card" in messages()
    assert choose(model, clock, recorded={**measured, "path": "absent"})["path"] == "fast"


def test_networks_without_recurrence_have_nothing_to_choose(clock: Clock, messages: Any) -> None:
    model = small_model(unit="mlp")
    eager = {"path": "eager", "card": CARD, "frames_per_second": {}, "left_out": {}}
    assert choose_path("auto", model, CARD, None, never) == eager
    for card in (CARD, "another card"):  # nothing was measured with which a run goes on
        assert choose_path("auto", model, card, eager, never) == {**eager, "card": card}
    assert "GPU path" not in messages()


def test_a_path_reaches_all_recurrences() -> None:
    model = small_model()
    set_path(model, "graph")
    assert [layer.path for layer in model.layers] == ["graph", "graph"]


@pytest.mark.slow
def test_a_training_takes_a_path_keeps_it_and_learns_the_same(
    clock: Clock,
    small_corpus: Path,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: Any,
) -> None:
    monkeypatch.setattr(record, "name_card", lambda _: CARD)
    for name in ("fast", "slow"):  # else the measured time decides
        monkeypatch.delitem(gpu_paths.GPU_PATHS, name)
    options = ("train.noise=0.2", "train.tempo=0.1")
    train(config_of(small_corpus, *options), tmp_path)
    environment = read_environment(tmp_path)
    assert environment["gpu_path"]["path"] == "eager"
    assert set(environment["gpu_path"]["left_out"]) == {"absent", "wrong", "nan", "broken", "large"}
    monkeypatch.setattr(start, "sample_batches", never)
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path)
    assert "GPU path eager, as was measured" in messages()
    assert read_environment(tmp_path)["gpu_path"] == environment["gpu_path"]
    assert_same(states(tmp_path), undisturbed)
    monkeypatch.setattr(record, "name_card", lambda _: None)
    train(config_of(small_corpus, *options, "train.epochs=4"), tmp_path)
    kept = read_environment(tmp_path)["gpu_path"]  # by a CPU, for the GPU
    assert kept == environment["gpu_path"]


def train_in_each(rank: int, folder: Path) -> int:
    """Train in one of two processes on a supposed card, and note the path of the first layer."""
    record.name_card = lambda _: CARD
    training = start.run_epochs

    def note_and_train(trainer: Any, *others: Any) -> None:
        (folder / f"{rank}.path").write_text(trainer.model.layers[0].path)
        training(trainer, *others)

    start.run_epochs = note_and_train
    with group.process_group():
        options = ("model.unit=torch-lstm", "train.gpu_path=auto")
        train(config_of(folder / "corpus", *options), folder / "run")
    return 0


@pytest.mark.slow
def test_processes_take_the_path_that_the_first_one_measures(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus")
    ended = together(tmp_path, train_in_each, tmp_path)
    assert [each.status for each in ended] == [0, 0], ended
    chosen = read_environment(tmp_path / "run")["gpu_path"]
    assert set(chosen["frames_per_second"]) == {"eager", "cudnn"}
    assert [(tmp_path / f"{rank}.path").read_text() for rank in range(2)] == [chosen["path"]] * 2


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_card_is_measured_and_a_run_goes_on_with_the_same_path(
    precision: str, small_corpus: Path, tmp_path: Path, messages: Any
) -> None:
    options = ("train.device=cuda", f"train.precision={precision}", "model.units=32")
    train(config_of(small_corpus, *options), tmp_path)
    chosen = read_environment(tmp_path)["gpu_path"]
    assert chosen["card"] == torch.cuda.get_device_name()
    assert {"eager", "graph"} <= set(chosen["frames_per_second"]), chosen["left_out"]
    assert "GPU path" in messages()
    train(config_of(small_corpus, *options, "train.epochs=3"), tmp_path)
    assert f"GPU path {chosen['path']}, as was measured" in messages()
    assert read_environment(tmp_path)["gpu_path"] == chosen


@pytest.mark.gpu
@pytest.mark.parametrize("path", [path for path in GPU_PATHS if path != "eager"])
def test_a_training_on_each_path_learns_what_the_eager_one_does(
    path: str, small_corpus: Path, tmp_path: Path
) -> None:
    unit = "torch-lstm" if path == "cudnn" else "li-bru"
    losses = []
    for name in (path, "eager"):
        options = ("train.device=cuda", f"model.unit={unit}", f"train.gpu_path={name}")
        train(config_of(small_corpus, *options), tmp_path / name)
        losses.append([entry["train_loss"] for entry in history_of(tmp_path / name)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
