"""Several processes: they compute what one does, write what one does, and end as one does."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes import group
from bayes_asr.base.processes.malloc import share_threads
from bayes_asr.cli import main
from bayes_asr.kaldi_io.text import write_mapping
from bayes_asr.nn.criteria import Cost, CrossEntropy
from bayes_asr.nn.frames import pack
from bayes_asr.nn.norm import NORMS
from bayes_asr.train.batch import Batch, empty_batch
from bayes_asr.train.loop import PassBatches, run_batches
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.step import Step
from tests.support.chain_corpus import CHAIN, write_chain_corpus
from tests.support.nn_units import UNITS, acoustic_model, name
from tests.support.processes import FORKED, SPAWNED, on_machines_of_their_own, together
from tests.support.small_corpus import SETS, TINY, made_up, write_corpus
from tests.support.small_lattices import write_denlats
from tests.support.training_runs import states
from tests.support.two_streams import BOTH, OTHER, write_both

INPUTS, OUTPUTS = 5, (7, 3)
HEADS = ("pdfs", "monophones")
BATCHES = ((23, 9, 31, 14, 14), (40,), (1,), (2, 1))
"""Lengths: ragged, and with fewer utterances than processes, one frame alone among them."""


def shared(lengths: tuple[int, ...]) -> Batch:
    """This process' share of a random batch."""
    torch.manual_seed(len(lengths))
    frames_of = {str(i): n for i, n in enumerate(lengths)}
    x = {utt: torch.randn(n, INPUTS) for utt, n in frames_of.items()}
    labels = [{utt: torch.randint(size, (n,)) for utt, n in frames_of.items()} for size in OUTPUTS]
    mine = group.take_share(list(frames_of), frames_of)
    if not mine:
        return empty_batch({"features": INPUTS}, HEADS)
    x_NF, frames, order = pack([x[utt] for utt in mine])
    packed = (pack([of[utt] for utt in mine])[0] for of in labels)
    targets = dict(zip(HEADS, packed, strict=True))
    keys = torch.tensor([int(mine[i]) for i in order])
    return Batch({"features": x_NF}, frames, targets, keys)


def learnt(norm: str, lengths: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Loss, errors, gradients and running statistics of a step, and what evaluation then finds."""
    torch.manual_seed(1)
    model = acoustic_model(INPUTS, OUTPUTS, units=(6, 4), norm=norm, dropout=0.2, input_dropout=0.1)
    group.pool_statistics(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    gradients: dict[str, torch.Tensor] = {}

    def note(*_: Any) -> None:
        named = model.named_parameters()
        gradients.update({key: p.grad.clone() for key, p in named if p.grad is not None})

    optimizer.register_step_pre_hook(note)
    step = Step(model, optimizer, max_gradient_norm=1e9)
    criterion = CrossEntropy({"pdfs": 1.0, "monophones": 0.5})
    batch = shared(lengths)
    passes = [
        run_batches(model, criterion, PassBatches(title, [["utt"]], lambda _: batch), step=how)
        for title, how in (("train", step), ("dev", None))
    ]
    found = {
        f"{number} {key}": torch.tensor(float(value))
        for number, totals in enumerate(passes)
        for key, value in vars(totals).items()
        if key in ("frames", "loss", "errors", "gradient_norm", "batches")
    }
    assert gradients
    return found | gradients | dict(model.named_buffers())


def learn_together(rank: int, folder: Path, apart: bool) -> int:
    on_machines_of_their_own(apart)
    with group.process_group():
        found = {(norm, lengths): learnt(norm, lengths) for norm in NORMS for lengths in BATCHES}
    torch.save(found, folder / f"{rank}.pt")
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_two_processes_learn_what_one_does(tmp_path: Path, apart: bool) -> None:
    ended = together(tmp_path, learn_together, tmp_path, apart)
    assert [each.status for each in ended] == [0, 0], ended
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for norm in NORMS:
        for lengths in BATCHES:
            alone = learnt(norm, lengths)
            for found in (first[norm, lengths], second[norm, lengths]):
                assert found.keys() == alone.keys()
                for key, expected in alone.items():
                    scale = expected.abs().max().clamp(min=1e-3)
                    difference = (found[key] - expected).abs().max() / scale
                    assert difference <= 1e-5, (norm, lengths, key, found[key], expected)


@pytest.mark.parametrize(
    ("local_rank", "cards", "number"),
    [("0", 2, 0), ("1", 2, 1), ("1", 1, 0)],  # the last sees its own alone
)
def test_each_process_has_a_gpu(
    local_rank: str, cards: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    assert group.find_card() == torch.device("cuda", number)


@pytest.mark.parametrize("others", [[1.0, 2.0], [2.0, 2.0]])
def test_processes_do_not_share_a_gpu(others: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "size", lambda: 2)
    monkeypatch.setattr(group, "_gather_numbers", lambda _: others)
    properties = SimpleNamespace(uuid="GPU-1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    if len(set(others)) == 2:
        assert group.find_card().type == "cuda"
    else:
        with pytest.raises(InputError, match="2 processes have 1 GPUs, and each needs one"):
            group.find_card()


@pytest.mark.parametrize("options", UNITS, ids=name)
def test_every_unit_takes_part_with_no_frame(options: dict[str, Any]) -> None:
    model = acoustic_model(INPUTS, OUTPUTS, units=(4, 3), **options)
    none = empty_batch({"features": INPUTS}, HEADS)
    logits = model(none.streams, none.frames, none.keys_B)
    assert [tuple(y.shape) for y in logits.values()] == [(0, size) for size in OUTPUTS]
    sum(y.sum() for y in logits.values()).backward()
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


def train_in_each(rank: int, arguments: list[str], what: str) -> int:
    """`bayes-asr train` in one of two processes, to the second of which, or the `first`, something
    may happen; `apart`: on machines of their own."""
    count = 0
    costs = CrossEntropy.__call__

    def cost_or_more(*args: Any) -> Cost:
        nonlocal count
        count += 1
        cost = costs(*args)
        if rank == ("first" not in what) and count == 3:
            if "signal" in what:
                os.kill(os.getpid(), signal.SIGTERM)
            if "kill" in what:
                os.kill(os.getpid(), signal.SIGKILL)
            if "error" in what:
                raise InputError("data/train/feats.ark: made to fail")
            if "nan" in what:
                return cost._replace(objective=cost.objective * float("nan"))
        return cost

    CrossEntropy.__call__ = cost_or_more
    on_machines_of_their_own("apart" in what)
    return main(arguments)


class Trainings:
    """A corpus, and trainings on it in two processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_corpus(folder / "corpus")

    def arguments(self, run: str, *more: str) -> list[str]:
        values = [
            f"--set=data.dir={self.folder / 'corpus'}",
            *(f"--set={v}" for v in (*TINY, *more)),
        ]
        config = self.folder / "empty.yaml"
        config.touch()
        return ["train", str(config), *values, "--out", str(self.folder / run)]

    def together(self, run: str, what: str = "nothing", *more: str) -> tuple[list[int], list[str]]:
        """Statuses of both, and what they printed."""
        arguments = self.arguments(run, *more)
        context = SPAWNED if "first" in what else FORKED  # the store goes with the first process
        ended = together(self.folder / "err", train_in_each, arguments, what, context=context)
        return [each.status for each in ended], [each.err for each in ended]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    made = Trainings(tmp_path_factory.mktemp("parallel"))
    assert main(made.arguments("alone")) == 0
    return made


def assert_close(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for key, expected in b.items():
        torch.testing.assert_close(
            a[key].double(), expected.double(), rtol=1e-4, atol=1e-5, msg=key
        )


@pytest.mark.slow
def test_two_processes_learn_two_streams_and_label_sets_as_one_does(tmp_path: Path) -> None:
    made = Trainings(tmp_path)
    write_both(tmp_path / "corpus", rate=2)
    more = (
        *BOTH,
        f"streams.{OTHER}.subsampling=2",
        "data.train.labels.again=exp/ali",
        "data.dev.labels.again=exp/ali_dev",
        "train.target_weights.again.pdfs=0.5",
        "train.tempo=0.1",
    )
    assert main(made.arguments("alone", *more)) == 0
    statuses, said = made.together("both", "nothing", *more)
    assert statuses == [0, 0], said
    assert_close(states(tmp_path / "both"), states(tmp_path / "alone"))


@pytest.mark.slow
def test_two_processes_learn_what_speakers_have_as_one_does(tmp_path: Path) -> None:
    made = Trainings(tmp_path)
    more = ("model.unit=mlp", "model.activation=p-sigmoid", "model.norm=none")
    more = (*more, "train.speaker_adaptive=true")
    assert main(made.arguments("alone", *more)) == 0
    statuses, said = made.together("both", "nothing", *more)
    assert statuses == [0, 0], said
    assert_close(states(tmp_path / "both"), states(tmp_path / "alone"))
    found, expected = (
        checkpoint.read(tmp_path / run / "best.pt")["speakers"] for run in ("both", "alone")
    )
    for speaker, values in expected.items():
        assert_close(found[speaker], values)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["mmi", "lfmmi"])
def test_two_processes_learn_on_whole_utterances_as_one_does(
    criterion: str, tmp_path: Path
) -> None:
    made = Trainings(tmp_path)
    more: tuple[str, ...] = (
        "train.criterion=mmi",
        f"data.train.lattices=[{write_denlats(tmp_path / 'denlats', 'train', 'dev')}]",
        "train.sequence.silence_phones=[2]",
        "train.sequence.acoustic_scale=0.5",
    )
    if criterion == "lfmmi":
        write_chain_corpus(tmp_path / "corpus")
        more = (*CHAIN, "train.optimizer=sgd")  # Adam would make steps of roundings too
    assert main(made.arguments("alone", *more)) == 0
    statuses, said = made.together("both", "nothing", *more)
    assert statuses == [0, 0], said
    assert_close(states(tmp_path / "both"), states(tmp_path / "alone"))


@pytest.mark.slow
def test_two_processes_learn_classes_as_one_does(tmp_path: Path) -> None:
    made = Trainings(tmp_path)
    for part, count in SETS.items():
        given = ((utt, "ab"[i % 2]) for i, utt in enumerate(made_up(part, count)[0]))
        write_mapping(given, tmp_path / "corpus/data" / part / "utt2lang")
    stack = [
        {"name": "rnn", "kind": "recurrent", "units": 4},
        {"name": "segments", "kind": "pool", "segment": 4, "shift": 2, "units": 3},
        {"name": "whole", "kind": "pool", "of": "last"},
    ]
    # Adam would make steps of one size of gradients of any, those of rounding too.
    more = ("data.classes=utt2lang", f"model.stack={stack}", "train.optimizer=sgd")
    assert main(made.arguments("alone", *more)) == 0
    statuses, said = made.together("both", "nothing", *more)
    assert statuses == [0, 0], said
    assert_close(states(tmp_path / "both"), states(tmp_path / "alone"))


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_and_one_process_goes_on(trainings: Trainings) -> None:
    statuses, said = trainings.together("stopped", "signal")
    assert statuses == [143, 143], said
    assert said[0].splitlines()[-1].startswith("bayes-asr train: stopped by SIGTERM in epoch 1;")
    assert said[1] == ""
    run = trainings.folder / "stopped"
    assert json.loads((run / "env.json").read_text())["processes"] == 2
    assert json.loads((run / "state.json").read_text())["state"] == "stopped"
    assert main(trainings.arguments("stopped")) == 0
    assert_close(states(run), states(trainings.folder / "alone"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["error", "error apart"])
def test_an_error_in_one_process_ends_all_and_is_said_once(trainings: Trainings, what: str) -> None:
    statuses, said = trainings.together(what, what)
    assert statuses == [1, 1]
    message = "data/train/feats.ark: made to fail"
    assert said[1] == f"bayes-asr train: error: {message}\n"
    assert message not in said[0]
    assert "Traceback" not in said[0]
    run = trainings.folder / what
    assert json.loads((run / "state.json").read_text())["why"] == f"process 1: {message}"
    assert message in (run / "train.log").read_text()
    assert {path.name for path in run.iterdir()} >= {"last.pt", "config.yaml"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["error first", "error first apart"])
def test_an_error_in_the_first_process_is_said_by_it_alone(trainings: Trainings, what: str) -> None:
    statuses, said = trainings.together(what, what)
    assert statuses == [1, 1], said
    message = "bayes-asr train: error: data/train/feats.ark: made to fail"
    assert said[0].splitlines()[-1] == message
    assert said[1] == ""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "kill apart"])
def test_a_process_that_is_killed_ends_all(trainings: Trainings, what: str) -> None:
    statuses, said = trainings.together(what, what)
    assert statuses == [1, -signal.SIGKILL]
    last = said[0].splitlines()[-1]
    assert last.startswith("bayes-asr train: error: another process of this training was killed")


def wait_for_the_first(rank: int, number: signal.Signals) -> int:
    with group.process_group():
        group.total(1)
        group.broadcast(lambda: os.kill(os.getpid(), number))
    return 0


@pytest.mark.slow
def test_a_first_process_that_is_killed_while_others_wait_ends_them(tmp_path: Path) -> None:
    ended = together(tmp_path, wait_for_the_first, signal.SIGKILL)
    assert [each.status for each in ended] == [-signal.SIGKILL, 1]
    assert "another process of this training was killed" in ended[1].err


@pytest.mark.slow
def test_a_loss_that_one_process_finds_not_finite_skips_the_batch_in_all(
    trainings: Trainings,
) -> None:
    statuses, said = trainings.together("skipped", "nan")
    assert statuses == [0, 0], said
    skips = re.findall(r"epoch 1, batch 3: the loss is nan; it is skipped: (.*)", said[0])
    assert [len(skip.split(", ")) for skip in skips] == [3]  # those of both processes, said once
    assert said[1] == ""
    entry = json.loads((trainings.folder / "skipped/history.jsonl").read_text().splitlines()[0])
    assert [batch["batch"] for batch in entry["skipped"]] == [3]


@pytest.mark.slow
def test_an_epoch_that_diverges_is_repeated_by_all(trainings: Trainings) -> None:
    statuses, said = trainings.together("returned", "nan", "train.max_bad_batches=0")
    assert statuses == [0, 0], said
    assert "back to its beginning, and on at 0.5 times the learning rate" in said[0]
    history = (trainings.folder / "returned/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["returns"] for line in history] == [1, 1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no choice of processors here")
def test_processors_are_those_that_a_job_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert share_threads(1) == "1"
    finally:
        os.sched_setaffinity(0, allowed)


def environment(process: str) -> list[str]:
    return Path(f"/proc/{process}/environ").read_text().split("\0")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
def test_started_process_that_is_killed_ends_all_with_its_status(trainings: Trainings) -> None:
    arguments = trainings.arguments("endless", "train.epochs=1000000")
    command = [sys.executable, "-m", "bayes_asr", *arguments, "--nproc", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as launcher:
        while launcher.poll() is None and not (trainings.folder / "endless/history.jsonl").exists():
            time.sleep(0.05)
        started = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        (second,) = (process for process in started if "RANK=1" in environment(process))
        os.kill(int(second), signal.SIGKILL)
        _, said = launcher.communicate()
    assert launcher.returncode == 128 + signal.SIGKILL, said
    assert "another process of this training was killed" in said


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_started_processes_save_and_end_where_what_started_them_is_killed(
    trainings: Trainings,
) -> None:
    run = trainings.folder / "orphans"
    arguments = trainings.arguments("orphans", "train.epochs=1000000")
    command = [sys.executable, "-m", "bayes_asr", *arguments, "--nproc", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as launcher:
        while launcher.poll() is None and not (run / "history.jsonl").exists():
            time.sleep(0.05)
        launcher.kill()
        _, said = launcher.communicate()  # which ends where no process has the pipe any more
    assert "stopped by SIGTERM in epoch" in said
    assert (run / "unfinished.pt").exists()


@pytest.mark.slow
def test_processes_are_started_and_end_with_the_status_of_one(
    trainings: Trainings, tmp_path: Path
) -> None:
    """They import nothing of the working directory."""
    (tmp_path / "yaml.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    command = [sys.executable, "-P", "-m", "bayes_asr", *trainings.arguments("started")]
    command += ["--nproc", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_close(states(trainings.folder / "started"), states(trainings.folder / "alone"))
    other = [*command, "--set=model.unit=gru"]
    done = subprocess.run(other, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert len(re.findall("error: .*model.unit is li-bru in this run", done.stderr)) == 1
    assert not (tmp_path / "executed").exists()
