"""Log-likelihoods of several streams: of data directories, in Python, in chunks, exported."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation, cmvn_statistics
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.nn.layer import describe_layers
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.runs.trained_network import TrainedNetwork
from bayes_asr.train.start import train
from tests.support.kaldi_jobs import write_run
from tests.support.nn_units import PLAIN
from tests.support.small_corpus import SETS, made_up, write_data_dir
from tests.support.training_runs import config_of
from tests.support.two_streams import (
    BOTH,
    OTHER,
    WIDTH,
    at_frames,
    frames_at,
    other_features,
    write_both,
    write_side_by_side,
)

CAUSAL = ("model.bidirectional=false",)
RATES: list[int | str] = [1, 3, -2, "utterance"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_both(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    """A run of two streams that reads forwards only and normalises the second by speaker."""
    train(config_of(corpus, *BOTH, *CAUSAL, f"streams.{OTHER}.cmvn=mean"), corpus / "run")
    return corpus / "run"


def loglikes_of(folder: Path) -> dict[str, np.ndarray]:
    return dict(iter_matrices(folder / "loglikes.scp"))


def forwarded(run: Path, out: Path, *arguments: str) -> dict[str, np.ndarray]:
    assert main(["forward", str(run), *arguments, f"--out={out}"]) == 0
    return loglikes_of(out)


@pytest.mark.slow
def test_a_set_is_computed_as_one_stream_of_both(corpus: Path, tmp_path: Path) -> None:
    one = write_side_by_side(tmp_path / "corpus")
    train(config_of(one), tmp_path / "one")
    train(config_of(corpus, *BOTH), tmp_path / "two")
    for name in SETS:
        found, wanted = (
            forwarded(tmp_path / run, tmp_path / f"{run}_{name}", f"--on={name}")
            for run in ("two", "one")
        )
        assert sorted(found) == sorted(made_up(name, SETS[name])[0])
        for utt, loglikes in wanted.items():
            np.testing.assert_array_equal(found[utt], loglikes)


@pytest.mark.slow
def test_directories_chunks_shards_and_python_give_the_same(
    corpus: Path, run: Path, tmp_path: Path
) -> None:
    wanted = forwarded(run, tmp_path / "on", "--on=test")
    directories = (f"--data={corpus}/data/test", f"--stream={OTHER}={corpus}/other/test")
    for name, more in (
        ("data", ()),
        ("chunk", ("--chunk=4",)),
        ("jobs", ("--nj=2", f"--cmd={write_run(tmp_path)}")),
    ):
        found = forwarded(run, tmp_path / name, *directories, *more)
        assert list(found) == list(wanted)
        for utt, loglikes in wanted.items():
            np.testing.assert_allclose(found[utt], loglikes, rtol=0, atol=1e-5)
    network = bayes_asr.load(run)
    features, other = made_up("test", SETS["test"])[0], other_features("test")
    stats = {OTHER: cmvn_statistics(other.values())}  # one speaker
    for utt, loglikes in wanted.items():
        both = {FEATURES: features[utt], OTHER: other[utt]}
        for found in (
            network(both, stats),
            network(**both, cmvn=stats),
            network(features[utt], stats, **{OTHER: torch.from_numpy(other[utt])}),
        ):
            np.testing.assert_allclose(found.numpy(), loglikes, rtol=0, atol=1e-5)


# --- what is refused


def lacking(data: Path) -> None:
    other = other_features("test")
    write_data_dir(data, {utt: x for utt, x in other.items() if utt != "test0-1"})


def short(data: Path) -> None:
    write_data_dir(data, {utt: x[:-1] for utt, x in other_features("test").items()})


def wide(data: Path) -> None:
    write_data_dir(data, {utt: np.hstack([x, x]) for utt, x in other_features("test").items()})


def other_speaker(data: Path) -> None:
    write_data_dir(data, other_features("test"))
    table = data / "utt2spk"
    table.write_text(table.read_text().replace("test0-1 test0", "test0-1 test9"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lacking,
            r"no features of pitch in .*other for 1 of 3 utterances: test0-1; .*max-sk",
        ),
        (
            short,
            r"test0-0 has \d+ frames in the stream pitch \(.*other\), but \d+ in .*data",
        ),
        (
            wide,
            r"test0-0 has 6 dimensions, but the network was trained on 3; use",
        ),
        (other_speaker, r"other/utt2spk: test0-1 is spoken by test9, but by test0 in .*data/test"),
    ],
)
def test_streams_that_disagree_are_refused_by_name(
    change: Callable[[Path], None],
    message: str,
    corpus: Path,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(tmp_path / "other")
    both = (f"--data={corpus}/data/test", f"--stream={OTHER}={tmp_path}/other")
    assert main(["forward", str(run), *both, f"--out={tmp_path}/out"]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out/loglikes.scp").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--data={}/data/test"],
            "this network reads features, pitch: give --stream pitch=DIR",
        ),
        (
            ["--data={}/data/test", "--stream=pich={}/other/test"],
            "no stream pich, but features, p",
        ),
        (["--on=test", "--stream=pitch={}/other/test"], "--stream goes with --data; the sets of a"),
        (["--data={}/data/test", *["--stream=pitch={}/other/test"] * 2], "names a stream twice"),
        (["--data={}/data/test", "--stream=features={}/other/test"], "first stream is --data DIR"),
        (["--data={}/data/test", "--stream=pitch"], "'pitch' is not NAME=DIR, as in fbank=data"),
    ],
)
def test_streams_that_are_named_wrongly_are_refused(
    arguments: list[str],
    message: str,
    corpus: Path,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [argument.format(corpus) for argument in arguments]
    try:
        status = main(["forward", str(run), *words, f"--out={tmp_path}/out"])
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status in (1, 2)
    assert message in capsys.readouterr().err


def test_a_lacking_stream_may_be_skipped(corpus: Path, run: Path, tmp_path: Path) -> None:
    lacking(tmp_path / "other")
    both = (f"--data={corpus}/data/test", f"--stream={OTHER}={tmp_path}/other")
    found = forwarded(run, tmp_path / "out", *both, "--max-skipped=0.4")
    assert sorted(found) == ["test0-0", "test0-2"]


def test_python_says_which_streams_it_wants(run: Path) -> None:
    network, x = bayes_asr.load(run), np.zeros((7, 5), np.float32)
    other, stats = np.zeros((7, WIDTH), np.float32), {OTHER: cmvn_statistics([np.ones((9, WIDTH))])}
    nan = np.where(np.arange(7)[:, None] == 4, np.float32(np.nan), other)
    for streams, message in (
        ({}, r"this network reads features, pitch: pass features, pitch too"),
        ({FEATURES: x}, r"pass pitch too, in a mapping or by name"),
        ({FEATURES: x, "pich": other}, r"there is no stream pich; did you mean pitch\??"),
        ({FEATURES: x, OTHER: x}, r"pitch are \[7, 5\], but the network reads \[T, 3\]"),
        ({FEATURES: x, OTHER: nan}, r"pitch are not finite in 1 of 7 frames, first in frame 4"),
        ({FEATURES: x, OTHER: other[1:]}, r"pitch has 6 frames, which do not go with 7 of featu"),
    ):
        with pytest.raises(ValueError, match=message):
            network(streams, stats)
    with pytest.raises(ValueError, match=r"normalises by speaker .*cmvn"):
        network(features=x, pitch=other)


# --- any rate: the oracle is a network that is given what each frame goes with


def network(rate: int | str, order: int = 0, right: int = 0, **options: object) -> LogLikelihoods:
    """A small causal one of two streams, the second at a rate of its own, with random weights."""
    rng = np.random.default_rng(3)
    torch.manual_seed(3)
    wide = WIDTH * (1 + order)
    front_ends = {}
    for name, size, own in ((FEATURES, 5 * (1 + right), {}), (OTHER, wide, {"subsampling": rate})):
        mean, deviation = rng.normal(size=size), rng.uniform(0.5, 2, size)
        measured = Normalisation(mean.astype(np.float32), deviation.astype(np.float32))
        front_ends[name] = FrontEnd(normalisation=measured, **own)
    front_ends[FEATURES] = replace(front_ends[FEATURES], right_context=right)
    front_ends[OTHER] = replace(front_ends[OTHER], deltas=order)
    layers = describe_layers(
        [6, 6],
        [*front_ends],
        unit="li-bru",
        options={},
        **{**PLAIN, "bidirectional": False, "norm": "layer", **options},
    )
    sizes = {name: end.size for name, end in front_ends.items()}
    model = AcousticModel(sizes, layers, {"pdfs": 4})
    return LogLikelihoods(TrainedNetwork(model, front_ends, torch.zeros(4, dtype=torch.float64)))


def spread(net: LogLikelihoods) -> LogLikelihoods:
    """The same, of a second stream that has the frames of the first and no deltas."""
    other = net.front_ends[OTHER]
    front_ends = {**net.front_ends, OTHER: replace(other, subsampling=1, deltas=0)}
    return LogLikelihoods(TrainedNetwork(net.model, front_ends, net.log_priors))


def utterance(rate: int | str, frames: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(frames)
    sizes = {FEATURES: (frames, 5), OTHER: (frames_at(rate, frames), WIDTH)}
    return {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}


@pytest.mark.parametrize("rate", [1, 2, 7, -2, -3, "utterance"])
@pytest.mark.parametrize("frames", [1, 2, 7, 20])
def test_each_frame_has_its_own_of_every_stream(rate: int | str, frames: int) -> None:
    net, x = network(rate), utterance(rate, frames)
    wanted = spread(net)({**x, OTHER: at_frames(rate, x[OTHER], frames)})
    assert torch.equal(net(x), wanted)


def test_company_changes_nothing() -> None:
    for rate in RATES:
        net = network(rate, order=0 if rate == "utterance" else 1)
        prepared = [net.prepare(utterance(rate, frames)) for frames in (3, 11, 1, 7)]
        together = net.compute_prepared(prepared)
        for x, found in zip(prepared, together, strict=True):
            torch.testing.assert_close(found, net.compute_prepared([x])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("rate", RATES)
@given(
    frames=st.integers(1, 23),
    cuts=st.tuples(*[st.lists(st.integers(0, 60), max_size=5).map(sorted)] * 2),
)
@settings(max_examples=15, deadline=None)
def test_chunks_of_each_stream_give_what_the_whole_gives(
    rate: int | str, frames: int, cuts: tuple[list[int], list[int]]
) -> None:
    """The streams are cut at other places, and one may be behind the other."""
    net = network(rate, order=0 if rate == "utterance" else 1, right=1)
    x = utterance(rate, frames)
    stream, found = net.stream(), []
    chunks = {name: np.split(x[name], some) for name, some in zip(x, cuts, strict=True)}
    for turn in range(max(map(len, chunks.values()))):
        nothing = {name: x[name][:0] for name in x}
        now = {name: some[turn] for name, some in chunks.items() if turn < len(some)}
        found.append(stream({**nothing, **now}))
    found.append(stream.finish())
    torch.testing.assert_close(torch.cat(found), net(x), rtol=0, atol=1e-5)


def test_a_stream_that_ends_elsewhere_is_refused_and_the_next_utterance_is_heard() -> None:
    net = network(3)
    x = utterance(3, 9)
    stream = net.stream()
    stream({**x, OTHER: x[OTHER][:1]})
    with pytest.raises(ValueError, match=r"pitch ended after 1 frames, which do not go with 9 of"):
        stream.finish()
    found = torch.cat([stream(x), stream.finish()])
    torch.testing.assert_close(found, net(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rate", "latency"), [(1, 2), (3, 6), (-2, 1), ("utterance", 1)])
def test_latency_is_that_of_the_slowest_stream(rate: int | str, latency: int) -> None:
    order = 0 if rate == "utterance" else 1
    assert network(rate, order=order, right=1).stream().latency == latency
