"""Decoding with mixtures: as from log-likelihoods, adapted to speakers, shared, and its faults."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.processes.pool import open_pool
from bayes_asr.base.shards import Cluster, Shard, ShardWrittenError
from bayes_asr.cli import main
from bayes_asr.data.features.fmllr_record import FmllrRecord, read_record
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.search import compiled
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.gmm import decoding
from bayes_asr.gmm.adaptation import Adaptation, SpeakerAdapter
from bayes_asr.gmm.affine import apply_transform, identity
from bayes_asr.gmm.decoding import FeatureTable, decode_data, make_job
from bayes_asr.gmm.features import read_transforms, write_fmllr
from bayes_asr.gmm.files import is_adapted
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.gmm.models import SEARCH
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.text import read_text
from tests.support.archives import one_line
from tests.support.decode_cases import word_paths
from tests.support.spoken_mixtures import DIM, Spoken, write_model, write_spoken
from tests.support.training_runs import Killed

ADAPTATION = Adaptation((7, 8), min_count=100)
GRID = {"lmwts": [1.0, 10.0], "wips": [0.0, 1.0]}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    return write_spoken(tmp_path_factory.mktemp("spoken"))


@pytest.fixture(scope="module")
def adapted(spoken: Spoken, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The utterances decoded with transforms."""
    out = tmp_path_factory.mktemp("adapted")
    decode(spoken, out, ADAPTATION)
    return out


def decode(spoken: Spoken, out: Path, adaptation: Adaptation | None, **how) -> None:  # type: ignore[no-untyped-def]
    job = make_job(spoken.data, spoken.graph, spoken.model, **GRID)
    decode_data(FeatureTable(spoken.data), job, out, adaptation=adaptation, **how)


def decode_likelihoods(spoken: Spoken, out: Path) -> None:
    """Decode what the mixtures make of the features, as a network's log-likelihoods are."""
    scores = ((u, log_likelihoods(spoken.mixtures, x)) for u, x in spoken.features.items())
    write_matrices(scores, out / "loglikes.ark")
    model = spoken.model / "final.mdl"
    grid = tuple(pair_weights(**GRID))
    decode_archive(DecodeJob(str(out / "loglikes.ark"), spoken.graph, model, SEARCH, grid), out)


def assert_same(one: Path, other: Path) -> None:
    """Words, costs and lattices are equal, byte for byte."""
    names = {path.name for path in one.iterdir() if path.suffix in (".txt", ".gz")}
    assert len(names) == 7
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_folder_is_that_of_log_likelihoods(spoken: Spoken, tmp_path: Path) -> None:
    decode_likelihoods(spoken, tmp_path / "archive")
    decode(spoken, tmp_path / "out", None)
    assert_same(tmp_path / "archive", tmp_path / "out")
    assert (tmp_path / "out" / "num_jobs").read_text() == "1\n"


@pytest.mark.skipif(not compiled.LIBRARY.usable, reason="the compiled decoder is not built")
def test_a_graph_is_composed_with_its_grammar(spoken: Spoken, tmp_path: Path) -> None:
    """G of one state adds nothing to what is composed in advance."""
    apart = replace(spoken, graph=tmp_path / "graph")
    apart.graph.mkdir()
    (apart.graph / "HCL.fst").write_bytes((spoken.graph / "HCLG.fst").read_bytes())
    (apart.graph / "words.txt").write_text("<eps> 0\nyes 1\nno 2\n#0 3\n")
    loop = build_fst([(0, word, word, 0.0, 0) for word in (1, 2)], {0: 0.0})
    write_fst(loop, apart.graph / "G.fst")
    for name, one in (("composed", spoken), ("apart", apart)):
        decode(one, tmp_path / name, None)
    found, expected = (read_text(tmp_path / n / "words.txt") for n in ("apart", "composed"))
    assert found == expected


def test_transforms_bring_the_words(spoken: Spoken, adapted: Path) -> None:
    said = read_text(spoken.data / "text")
    assert {utt: words[:2] for utt, words in read_text(adapted / "words.txt").items()} == said


def test_transforms_undo_what_sets_speakers_apart(spoken: Spoken, adapted: Path) -> None:
    transforms = read_transforms(adapted)
    assert list(transforms) == ["ann", "bob"]
    for utt, x in spoken.features.items():
        y = apply_transform(transforms[utt[:3]], x)
        log_det = np.linalg.slogdet(transforms[utt[:3]][:, :DIM])[1]
        before, after = (log_likelihoods(spoken.mixtures, z).max(1).mean() for z in (x, y))
        assert after + log_det > before + 0.5, utt


def test_too_few_frames_leave_features_as_they_are(
    spoken: Spoken, tmp_path: Path, messages: Callable[[], str]
) -> None:
    """Then the lattices that are scored anew are those of the search."""
    decode_likelihoods(spoken, tmp_path / "archive")
    decode(spoken, tmp_path / "out", replace(ADAPTATION, min_count=1000))
    for name in ("words.txt", "costs.txt", "words.lmwt1.wip0.0.txt"):
        assert read_text(tmp_path / "archive" / name) == read_text(tmp_path / "out" / name)
    one, other = (dict(iter_lattices(tmp_path / n / "lat.1.gz")) for n in ("archive", "out"))
    for utt, lattice in one.items():
        ours, theirs = (
            {words: (graph, acoustic) for words, _, graph, acoustic in word_paths(found)}
            for found in (lattice, other[utt])
        )
        assert ours.keys() == theirs.keys()
        for words, costs in ours.items():
            assert costs == pytest.approx(theirs[words], rel=1e-5, abs=1e-2)
    for transform in read_transforms(tmp_path / "out").values():
        np.testing.assert_array_equal(transform, identity(DIM))
    assert messages().count("ann: 240 frames of speech, and a transform takes more than 1000") == 1


def test_a_speaker_of_constant_frames_does_not_end_the_decoding_of_others(
    adapted: Path, tmp_path: Path, messages: Callable[[], str]
) -> None:
    spoken = write_spoken(tmp_path)
    muted = ((u, np.ones_like(x) if u[:3] == "ann" else x) for u, x in spoken.features.items())
    write_matrices(muted, spoken.data / "feats.ark", spoken.data / "feats.scp")
    decode(spoken, tmp_path / "out", ADAPTATION)
    found = read_transforms(tmp_path / "out")
    np.testing.assert_array_equal(found["ann"], identity(DIM))
    np.testing.assert_array_equal(found["bob"], read_transforms(adapted)["bob"])
    assert "ann: 240 frames of speech do not vary in all of 4 dimensions" in messages()


def test_new_recordings_are_adapted_as_decoding_adapts(
    spoken: Spoken, adapted: Path, tmp_path: Path, messages: Callable[[], str]
) -> None:
    """By what a folder of fMLLR features records, which holds where all is moved."""
    first = tmp_path / "first"
    model, out = first / "exp" / "tri3", first / "fmllr" / "train"
    shutil.copytree(spoken.model, model)
    shutil.copytree(spoken.graph, model / "graph")
    data = shutil.copytree(spoken.data, tmp_path / "data")
    write_fmllr(data, model, adapted, out)
    assert read_record(out) is None, "nobody knows what made the features that it read"
    sound = {"kind": "mfcc", "cepstra": DIM}
    (data / "frontend.json").write_text(json.dumps(sound))
    write_fmllr(data, model, adapted, out)
    record = read_record(first.rename(tmp_path / "moved") / "fmllr" / "train")
    assert record == FmllrRecord(tmp_path / "moved" / "exp" / "tri3", sound)
    adapter = SpeakerAdapter.open(record.model_dir)
    said = {utt: x for utt, x in spoken.features.items() if utt.startswith("ann")}
    adapt = adapter.estimate("ann", said)
    for utt, x in said.items():
        np.testing.assert_array_equal(adapt(x), spoken.features[utt])
    assert f"{record.model_dir}: ann: 240 frames of speech, and a transform takes" in messages()
    transform = read_transforms(adapted)["ann"]
    adapt = replace(adapter, adaptation=ADAPTATION).estimate("ann", said)
    for utt, x in said.items():
        np.testing.assert_array_equal(adapt(x), apply_transform(transform, spoken.features[utt]))
    with pytest.raises(InputError) as raised:
        replace(adapter, pipeline=replace(adapter.pipeline, matrix=np.eye(DIM + 2))).estimate(
            "ann", said
        )
    one_line(raised, f"{record.model_dir}: the features have {DIM} values", "extract the features")
    (out := tmp_path / "moved" / "fmllr" / "train" / "fmllr.json").write_text('{"model": 1}')
    with pytest.raises(InputError) as raised:
        read_record(out.parent)
    one_line(raised, f"{out}: no record of fMLLR", "again by bayes-asr gmm features")


def test_silence_hardly_counts(spoken: Spoken, tmp_path: Path, messages: Callable[[], str]) -> None:
    decode(spoken, tmp_path, replace(ADAPTATION, silence=(1, 2, 3)))
    assert "bob: 2 frames of speech" in messages()


def test_first_search_has_a_model_of_its_own(spoken: Spoken, adapted: Path, tmp_path: Path) -> None:
    """The same model under the other name changes nothing, another one does."""
    model = tmp_path / "model"
    write_model(model, spoken.mixtures)
    assert not is_adapted(model)
    write_model(model, spoken.mixtures, "final.alimdl")
    assert is_adapted(model)
    decode(replace(spoken, model=model), tmp_path / "same", ADAPTATION)
    assert_same(adapted, tmp_path / "same")
    means = spoken.mixtures.means + 0.3
    parts = spoken.mixtures.offsets, spoken.mixtures.weights, means, spoken.mixtures.variances
    write_model(model, type(spoken.mixtures).from_moments(*parts), "final.alimdl")
    decode(replace(spoken, model=model), tmp_path / "other", ADAPTATION)
    ours, theirs = read_transforms(tmp_path / "other"), read_transforms(adapted)
    assert 0 < np.abs(ours["ann"] - theirs["ann"]).max() < 0.1


@pytest.mark.slow
def test_processes_change_nothing(spoken: Spoken, adapted: Path, tmp_path: Path) -> None:
    with open_pool(2) as way:
        decode(spoken, tmp_path, ADAPTATION, mapper=way)
    assert_same(adapted, tmp_path)
    assert (adapted / "trans.1").read_bytes() == (tmp_path / "trans.1").read_bytes()


def test_shards_change_nothing(spoken: Spoken, adapted: Path, tmp_path: Path) -> None:
    out, shards = tmp_path / "out", tmp_path / "shards"
    for number in (1, 2):
        with suppress(ShardWrittenError):
            decode(spoken, out, ADAPTATION, mapper=Shard(shards, number, 2, "same"))
    assert not out.exists()
    gathering = Cluster(shards, tmp_path / "log", 2, lambda: "same", [], "")
    decode(spoken, out, ADAPTATION, mapper=gathering)
    assert_same(adapted, out)
    assert (adapted / "trans.1").read_bytes() == (out / "trans.1").read_bytes()


@pytest.mark.parametrize("adapts", [False, True], ids=["plain", "adapted"])
def test_an_ended_call_goes_on(
    adapts: bool, spoken: Spoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whom it has not adapted to, or what it has not decoded."""
    decode_group, groups, end = decoding.decode_group, list[str](), -1

    def count_groups(task: object, name: str, utts: list[str]) -> object:
        if len(groups) == end:
            raise Killed
        groups.append(name)
        return decode_group(task, name, utts)

    monkeypatch.setattr(decoding, "decode_group", count_groups)
    words = ["gmm", "decode", str(spoken.data), str(spoken.graph), str(spoken.model)]
    option = "--adapt" if adapts else "--no-adapt"
    assert main([*words, str(tmp_path / "whole"), option, "--lmwt", "1", "2"]) == 0
    whole, end = groups.copy(), len(groups) + 1
    ended = [*words, str(tmp_path / "ended"), option, "--lmwt", "1", "2"]
    with pytest.raises(Killed):
        main(ended)
    end = -1
    assert main(ended) == 0
    assert groups == whole * 2
    assert len(whole) == (2 if adapts else 8)
    kept, made = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("ended", "whole")
    )
    assert kept == made


BOTH = pytest.mark.parametrize("adaptation", [None, ADAPTATION], ids=["plain", "adapted"])


@BOTH
def test_utterance_that_cannot_be_read_is_named_and_the_others_are_decoded(
    adaptation: Adaptation | None, tmp_path: Path
) -> None:
    spoken = write_spoken(tmp_path)
    first, *lines = (spoken.data / "feats.scp").read_text().splitlines()
    elsewhere = lines[0].split()[1]  # where another utterance is read
    wrong = f"{first.split()[0]} {elsewhere.rpartition(':')[0]}:3"
    (spoken.data / "feats.scp").write_text("\n".join([*lines, wrong]) + "\n")
    out = tmp_path / "out"
    with pytest.raises(InputError) as raised:
        decode(spoken, out, adaptation)
    one_line(raised, "1 of 8 utterances failed", "ann-0")
    assert [utt for utt, words in read_text(out / "words.txt").items() if not words] == ["ann-0"]


@BOTH
def test_utterance_without_a_frame_changes_nothing_of_the_others(
    adaptation: Adaptation | None, spoken: Spoken, adapted: Path, tmp_path: Path
) -> None:
    """More than the limit are refused before anything is decoded."""
    data = shutil.copytree(spoken.data, tmp_path / "data")
    with (data / "utt2spk").open("a") as file:
        file.write("ann-x ann\nzoe-x zoe\n")
    more, out, plain = replace(spoken, data=data), tmp_path / "out", tmp_path / "plain"
    with pytest.raises(InputError) as raised:
        decode(more, out, adaptation)
    limit = "--max-skipped = 0.05 allows: mend them, or skip them by --max-skipped 0.2"
    one_line(raised, f"no features in {data} for 2 of 10 utterances: ann-x, zoe-x", limit)
    assert not out.exists()
    decode(more, out, adaptation, max_skipped=0.2)
    if not adaptation:
        decode(spoken, plain, None)
    assert_same(adapted if adaptation else plain, out)


def test_model_of_other_features_is_refused(spoken: Spoken, tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_model(model, spoken.mixtures)
    (model / "delta_opts").write_text("--delta-order=1\n")
    with pytest.raises(InputError) as raised:
        decode(replace(spoken, model=model), tmp_path / "out", None)
    one_line(raised, "feats.scp", "of 4 values", "here are 8")


def test_models_of_different_trainings_are_refused(spoken: Spoken, tmp_path: Path) -> None:
    model, first = tmp_path / "model", np.array([0, 1, 4, 6])
    write_model(model, spoken.mixtures)
    write_model(model, replace(spoken.mixtures, offsets=first), "final.alimdl")
    with pytest.raises(InputError) as raised:
        decode(replace(spoken, model=model), tmp_path / "out", ADAPTATION)
    one_line(raised, "final.alimdl", "final.mdl", "the models of one training")


def test_silence_phones_are_those_of_the_graph(spoken: Spoken, tmp_path: Path) -> None:
    assert read_silence_ids(spoken.graph) == (7, 8)
    with pytest.raises(InputError, match=r"silence\.csl: is missing"):
        read_silence_ids(tmp_path)
    (tmp_path / "phones").mkdir()
    (tmp_path / "phones" / "silence.csl").write_text("\n")
    assert read_silence_ids(tmp_path) == ()
    (tmp_path / "phones" / "silence.csl").write_text("SIL\n")
    with pytest.raises(InputError, match="no list of phone-ids"):
        read_silence_ids(tmp_path)
