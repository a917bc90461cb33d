"""The TIMIT recipe: LDC's layout in both cases, the flat sample, what Kaldi makes of it, damage."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded
from tests.support.timit_tree import (
    RATE,
    TRANSCRIPT,
    write_flat,
    write_ldc,
    write_riff,
    write_sentence,
    write_sphere,
)

RECIPE = RECIPES / "timit"
SETS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The recipe's files, loaded as its scripts see them."""
    with loaded(RECIPE, "corpus", "prepare", "align") as modules:
        yield modules


@pytest.fixture
def lists(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "dev.list").write_text("FAKS0\n")
    (tmp_path / "test.list").write_text("mdab0\n")
    return {"dev": tmp_path / "dev.list", "test": tmp_path / "test.list"}


@pytest.mark.parametrize("upper", [True, False])
def test_ldcs_layout_in_both_cases_gives_the_same_files(
    recipe: Callable[[str], ModuleType], lists: dict[str, Path], tmp_path: Path, upper: bool
) -> None:
    corpus, out = write_ldc(tmp_path / "timit", upper), tmp_path / "out"
    recipe("prepare").prepare(tmp_path, out, lists)  # the folder above will do
    assert read_text(out / "data/train/text") == {
        utt: TRANSCRIPT.split() for utt in ("fcjf0_si1", "fcjf0_sx1", "mcpm0_si1", "mcpm0_sx1")
    }
    assert (out / "data/dev/spk2utt").read_text() == "faks0 faks0_si1 faks0_sx1\n"
    assert (out / "data/test/spk2gender").read_text() == "mdab0 m\n"
    seconds = f"{11000 / RATE:.6f}"
    assert (out / "data/dev/stm").read_text().splitlines()[3:] == [
        f"faks0_{name} 1 faks0 0.0 {seconds} <O,F> {TRANSCRIPT}" for name in ("si1", "sx1")
    ]
    for utt, wav in read_mapping(out / "data/dev/wav.scp").items():
        assert Path(wav).exists()
        assert Path(wav).is_relative_to(corpus)
        assert utt.partition("_")[2] == Path(wav).stem.lower()


def test_sphere_and_riff_give_the_same_features_and_labels(
    recipe: Callable[[str], ModuleType], lists: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("kaldi_native_fbank")
    pytest.importorskip("kaldifst")
    outs = []
    for name, write in (("sphere", write_sphere), ("riff", write_riff)):
        corpus = write_ldc(tmp_path / name)
        for marks in corpus.rglob("*.PHN"):
            write_sentence(marks.parent, marks.stem, True, write)
        outs.append(tmp_path / f"{name}_out")
        prepare = recipe("prepare").main
        options = [f"--{n}-speakers={p}" for n, p in lists.items()]
        assert prepare([f"--corpus={corpus}", f"--out={outs[-1]}", *options]) == 0
        directories = [str(outs[-1] / "data" / name) for name in SETS]
        assert main(["features", *directories]) == 0
        assert recipe("align").main([f"--out={outs[-1]}"]) == 0
    for name in ("feats.ark", "cmvn.ark", "frontend.json", "phones.ctm"):
        one, other = (out / "data/train" / name for out in outs)
        assert one.read_bytes() == other.read_bytes()
    alignments = Alignments(outs[0] / "exp/marks_ali")
    names = read_mapping(outs[0] / "exp/marks_ali/phones.txt")
    by_id = {int(number): name for name, number in names.items()}
    phones = [by_id[p] for p in alignments.phones("fcjf0_si1")]
    # The middle of frame n is at sample 200 + 160 n; the first q is part of the ae after it, the
    # last of the silence; t has one frame and takes two of er.
    counts = {"sil": 12, "ae": 12, "cl": 5, "t": 3, "er": 8, "ng": 7}
    assert phones[:47] == [phone for phone, count in counts.items() for _ in range(count)]
    assert {*phones[47:]} == {"sil"}


def test_complete_corpus_is_counted(
    recipe: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of Kaldi's recipe are complete, and a corpus of another size is refused."""
    members = {
        name: (RECIPE / f"{name}_speakers.txt").read_text().split() for name in ("dev", "test")
    }
    assert (len(members["dev"]), len(members["test"])) == (50, 24)
    assert not {*members["dev"]} & {*members["test"]}
    everybody = dict.fromkeys([*members["dev"], *members["test"]], "test") | {"fcjf0": "train"}
    spoken = recipe("corpus").Recording
    found = [
        spoken(f"{speaker}_sx{i}", speaker, part, tmp_path, tmp_path)
        for speaker, part in everybody.items()
        for i in range(8)
    ]
    prepare = recipe("prepare")
    monkeypatch.setattr(prepare, "recordings", lambda corpus: found)
    phones = [(0, "sil")]
    monkeypatch.setattr(prepare, "read", lambda r: prepare.Sentence(r, phones, 9, RATE))
    monkeypatch.setitem(prepare.COMPLETE, "train", (8, None))
    with pytest.raises(InputError, match="dev has 400 phones, but in the complete TIMIT 15057"):
        prepare.prepare(tmp_path, tmp_path / "out", {})
    monkeypatch.setitem(prepare.COMPLETE, "dev", (400, 400))
    with pytest.raises(InputError, match="test has 192 phones, but in the complete TIMIT 7215"):
        prepare.prepare(tmp_path, tmp_path / "out", {})
    monkeypatch.setitem(prepare.COMPLETE, "train", (3696, None))
    with pytest.raises(InputError, match=r"train has 8 utterances, but .* 3696"):
        prepare.prepare(tmp_path, tmp_path / "out", {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").unlink(), r"FCJF0: sx1 has no phn file"),
        (lambda c: (c / "TEST/DR1/FAKS0/SI1.WAV").unlink(), r"FAKS0: si1 has no wav file"),
        (
            lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").write_text("5 9 h#\n4 12 aa\n"),
            "SX1.PHN, line 2: aa begins at 4, the phone before it at 5",
        ),
        (
            lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").write_text("0 9 h#\n9 12 xx\n"),
            "SX1.PHN, line 2: xx is no phone of TIMIT",
        ),
        (lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").write_text("0 9\n"), "SX1.PHN, line 1: not"),
        (lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").write_text(""), "SX1.PHN: no phone is marked"),
        (
            lambda c: (c / "TRAIN/DR1/FCJF0/SX1.PHN").write_text("0 9 h#\n20000 20009 h#\n"),
            "begins at sample 20000, but SX1.WAV has 11000",
        ),
        (
            lambda c: (c / "TRAIN/DR1/FCJF0/SX1.WAV").write_bytes(b"RIFF"),
            re.escape("SX1.WAV"),
        ),
        (
            lambda c: (c / "TEST/DR1/FAKS0").rename(c / "TEST/DR1/FAKS1"),
            "faks0 is not among the 5 speakers of the corpus; .*--dev-speakers",
        ),
        (
            lambda c: (
                (c / "TRAIN/DR2/FCJF0").mkdir(parents=True)
                or write_sentence(c / "TRAIN/DR2/FCJF0", "sx1", True, write_sphere)
            ),
            "fcjf0_sx1 is there a second time",
        ),
    ],
)
def test_damage_is_named(
    recipe: Callable[[str], ModuleType],
    lists: dict[str, Path],
    tmp_path: Path,
    change: Callable[[Path], object],
    message: str,
) -> None:
    change(write_ldc(tmp_path / "c"))
    with pytest.raises(InputError, match=message):
        recipe("prepare").prepare(tmp_path / "c", tmp_path / "out", lists)


def test_folder_without_timit_is_refused_in_one_line(
    recipe: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recipe("prepare").main([f"--corpus={tmp_path}", f"--out={tmp_path / 'out'}"]) == 1
    error = capsys.readouterr().err
    assert "no TIMIT here" in error
    assert error.count("\n") == 1


def test_second_copy_of_the_sound_is_passed_over(
    recipe: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    corpus = write_ldc(tmp_path / "c")
    write_riff(corpus / "TRAIN/DR1/FCJF0/SX1.WAV.wav", np.zeros(99))
    names = [r.name for r in recipe("corpus").recordings(corpus) if r.speaker == "fcjf0"]
    assert names == ["fcjf0_si1", "fcjf0_sx1"]
    (corpus / "TRAIN/DR1/FCJF0/SX1.WAV").unlink()
    with pytest.raises(InputError, match=r"sx1 has no wav file; rename SX1\.WAV\.wav, or copy"):
        recipe("corpus").recordings(corpus)


def test_a_speaker_in_two_lists_is_refused(
    recipe: Callable[[str], ModuleType], lists: dict[str, Path], tmp_path: Path
) -> None:
    corpus = write_ldc(tmp_path / "c")
    (tmp_path / "test.list").write_text("mdab0\nfaks0\n")
    with pytest.raises(InputError, match=r"test\.list: faks0 is in the list of dev too"):
        recipe("prepare").prepare(corpus, tmp_path / "out", lists)


@pytest.mark.slow
def test_features_of_other_kinds_by_option(tmp_path: Path) -> None:
    pytest.importorskip("kaldi_native_fbank")
    write_sentence(tmp_path, "sx1", False, write_riff)
    (tmp_path / "wav.scp").write_text(f"u {tmp_path / 'sx1.wav'}\n")
    (tmp_path / "utt2spk").write_text("u s\n")
    frames = (11000 - 400) // 160 + 1
    for options, size in (
        (["--kind=fbank"], 40),
        (["--kind=fbank", "--bands=24"], 24),
        (["--cepstra=20"], 20),
        (["--sample-rate=8000"], 13),
        ([], 13),
    ):
        assert main(["features", str(tmp_path), *options]) == 0
        ((utt, matrix),) = iter_matrices(tmp_path / "feats.scp")
        assert (utt, *matrix.shape) == ("u", frames, size)


def test_lists_replace_kaldis_and_regions(
    recipe: Callable[[str], ModuleType], lists: dict[str, Path], tmp_path: Path
) -> None:
    """LDC's layout keeps Kaldi's list of the set that is not named; nothing is left empty."""
    corpus = write_ldc(tmp_path / "c")
    prepare = recipe("prepare").prepare
    with pytest.raises(InputError, match=r"dev_speakers.txt: fadg0 is not among the 5 speakers"):
        prepare(corpus, tmp_path / "out", {"test": lists["test"]})
    flat = write_flat(tmp_path / "flat")
    prepare(flat, tmp_path / "out", {})
    assert {
        name: sorted(set(read_mapping(tmp_path / "out/data" / name / "utt2spk").values()))
        for name in SETS
    } == {"train": ["fa0", "fc0", "fe0", "mb0", "md0"], "dev": ["mf0"], "test": ["fg0", "mh0"]}
    lists["dev"].write_text("fa0\n")
    with pytest.raises(InputError, match="test has no speakers: list them by --test-speakers"):
        prepare(flat, tmp_path / "out", {"dev": lists["dev"]})
    lists["test"].write_text("mf0\nfc0\n")
    lists["train"] = tmp_path / "train.list"
    lists["train"].write_text("mh0\n")
    prepare(flat, tmp_path / "out", lists)
    utts = [f"mh0_sx{i}" for i in range(4)]
    assert (tmp_path / "out/data/train/spk2utt").read_text() == f"mh0 {' '.join(utts)}\n"


@pytest.fixture(scope="module")
def sample(
    recipe: Callable[[str], ModuleType], shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The sample of NLTK, prepared."""
    out = tmp_path_factory.mktemp("timit")
    corpus = shared_data / "timit_sample"
    if not corpus.exists():
        pytest.skip(f"real data is absent: {corpus}")
    assert recipe("prepare").main([f"--corpus={corpus}", f"--out={out}"]) == 0
    return out


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("file", ["text", "stm", "glm", "spk2gender", "utt2spk", "spk2utt"])
def test_sample_is_prepared_as_by_kaldi(
    sample: Path, kaldi_corpus: Callable[[str], Path], name: str, file: str
) -> None:
    theirs = kaldi_corpus("timit_sample") / "data" / name / file
    assert (sample / "data" / name / file).read_text() == theirs.read_text()


def test_dictionary_and_bigram_are_those_of_kaldis_recipe(
    sample: Path, kaldi_corpus: Callable[[str], Path]
) -> None:
    theirs, ours = kaldi_corpus("timit_sample") / "data", sample / "data" / "local"
    for file in ("silence_phones", "nonsilence_phones", "optional_silence", "extra_questions"):
        written = (ours / "dict" / f"{file}.txt").read_text()
        assert written == (theirs / "dict" / f"{file}.txt").read_text()
    lexicon = (theirs / "dict" / "lexicon.txt").read_text().replace("\t", " ")
    assert (ours / "dict" / "lexicon.txt").read_text() == lexicon
    one, other = read_arpa(ours / "lm.arpa"), read_arpa(theirs / "lm.arpa")
    assert one.log_prob.keys() == other.log_prob.keys()
    # Each estimates unigrams in its own way; what was seen twice hardly depends on them.
    assert one.backoff == pytest.approx(other.backoff, abs=1e-5)


def test_counts_of_the_sample(sample: Path, shared_data: Path) -> None:
    texts = {name: read_text(sample / "data" / name / "text") for name in SETS}
    assert {name: len(text) for name, text in texts.items()} == {"train": 80, "dev": 16, "test": 32}
    assert sum(len(phones) for text in texts.values() for phones in text.values()) == 4893
    marks = [
        line.split()[2]
        for file in (shared_data / "timit_sample").glob("dr*/s[ix]*.phn")
        for line in file.read_text().splitlines()
    ]
    assert marks.count("q") == 95
    assert len(marks) - 95 == 4893


def test_marks_of_the_sample_fill_every_recording(sample: Path) -> None:
    lengths = {
        u: float(seconds) for u, seconds in read_mapping(sample / "data/dev/utt2dur").items()
    }
    ends = dict.fromkeys(lengths, 0.0)
    for line in (sample / "data/dev/phones.ctm").read_text().splitlines():
        utt, _, start, duration, _ = line.split()
        assert float(start) == pytest.approx(ends[utt], abs=1e-6)
        ends[utt] = float(start) + float(duration)
    assert ends == pytest.approx(lengths, abs=1e-5)
