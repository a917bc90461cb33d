"""The AMI recipe: from annotations to Kaldi's data directories and a language model."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.text import read_mapping, read_text
from tests.support.ami_corpus import RECIPE, SETS, Turn, Wearer, wearers, write_annotations
from tests.support.recipe_modules import loaded

LEXICON = "HELLO HH AH L OW\nUM AH M\nOKAY OW K EY\nTHIS DH IH S\nIS IH Z\n"


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The recipe's files, loaded as its script sees them."""
    with loaded(RECIPE, "nxt", "transcripts", "data_dir", "dictionary", "prepare") as modules:
        yield modules


@pytest.fixture
def prepared(
    recipe: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Path, str]]:
    """Prepare what `write_annotations` wrote into tmp_path/corpus: the folder, and what it said."""
    (tmp_path / "lexicon.txt").write_text(LEXICON)

    def run(*options: str, fails: bool = False) -> tuple[Path, str]:
        out = tmp_path / "out"
        named = [f"--corpus={tmp_path / 'corpus'}", f"--out={out}"]
        status = recipe("prepare").main([*named, f"--dict={tmp_path / 'lexicon.txt'}", *options])
        assert status == int(fails)
        said = capsys.readouterr()
        return out, said.err if fails else said.out

    return run


def test_the_golden_recordings_become_kaldis_directory(
    prepared: Callable[..., tuple[Path, str]], golden: Path, tmp_path: Path
) -> None:
    people = wearers(golden / "ami" / "fixture_transcripts1")
    write_annotations(people, tmp_path / "corpus" / "annotations")
    for person in people:
        name = f"{person.meeting}.Headset-{person.channel}.wav"
        (tmp_path / "corpus" / person.meeting / "audio").mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / person.meeting / "audio" / name).touch()
    out, said = prepared()
    assert "missing" not in said
    assert "16 of 16 meetings" not in said
    expected = golden / "ami" / "expected_eval"
    for file in expected.iterdir():
        if file.name != "wav.scp":
            assert (out / "data" / "eval" / file.name).read_text() == file.read_text(), file.name
    sounds = read_mapping(out / "data" / "eval" / "wav.scp")
    for line in (expected / "wav.scp").read_text().splitlines():
        recording, *command = line.split()
        assert Path(sounds[recording]).name == Path(command[7]).name
        assert Path(sounds[recording]).exists()
    assert sorted(p.name for p in (out / "data").iterdir()) == ["dev", "eval", "local", "train"]


HELLO = Turn("1.0", "2.0", "Hello .", ("2.0",))


def small(*people: Wearer) -> list[Wearer]:
    """One meeting a set, in which `people` take part besides one speaker each."""
    rooms = ("ES2002a", "ES2011a", "ES2004a")
    return [*(Wearer(room, "A", "FEE001", 0, [HELLO]) for room in rooms), *people]


def test_a_line_annotated_twice_is_named_and_taken_once(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    write_annotations(
        small(Wearer("ES2002a", "B", "MEE002", 1, [HELLO, HELLO])), tmp_path / "corpus"
    )
    out, said = prepared()
    name = "AMI_ES2002a_H01_MEE002_0000100_0000200"
    assert f"train: 3 utterances, of which annotated twice: {name}" in said
    assert list(read_text(out / "data" / "train" / "text")).count(name) == 1


def test_one_name_with_two_transcripts_is_refused(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    other = Turn("1.0", "2.0", "Okay .", ("2.0",))
    write_annotations(
        small(Wearer("ES2002a", "B", "MEE002", 1, [HELLO, other])), tmp_path / "corpus"
    )
    _, said = prepared(fails=True)
    assert "AMI_ES2002a_H01_MEE002_0000100_0000200: said to be both 'HELLO' and 'OKAY'" in said


def test_overlaps_within_a_speaker_are_mended_in_dev_and_eval_only(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    """As Kaldi does it: the later one begins where the former ends, under its old name."""
    turns = [
        Turn("1.0", "3.0", "Hello um"),
        Turn("2.5", "4.0", "Okay"),
        Turn("2.7", "2.9", "Um"),
    ]
    people = [Wearer(room, "B", "MEE002", 1, turns) for room in ("ES2002a", "ES2004a")]
    write_annotations(small(*people), tmp_path / "corpus")
    out, said = prepared()
    lines = (out / "data" / "eval" / "segments").read_text().splitlines()
    assert lines[2:] == ["AMI_ES2004a_H01_MEE002_0000250_0000400 AMI_ES2004a_H01 3 4 "]
    stm = (out / "data" / "eval" / "stm").read_text().splitlines()
    assert stm[2:] == ["ES2004a.Headset-1 A AMI_ES2004a_H01_MEE002 3 4 OKAY "]
    assert "inside another: AMI_ES2004a_H01_MEE002_0000270_0000290" in said
    unmended = (out / "data" / "train" / "segments").read_text()
    assert "0000250_0000400 AMI_ES2002a_H01 2.5 4 " in unmended
    assert "0000270_0000290 AMI_ES2002a_H01 2.7 2.9 " in unmended


def test_words_that_no_time_is_known_of_are_counted_and_named(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    """Kaldi's recipe drops these; MM-HMM, which it joins, is none of them."""
    turns = [
        Turn("1.0", "2.0", "Hello . Okay .", ("1.5",)),
        Turn("3.0", "4.0", "this.is okay .", ("4.0",)),
        Turn("5.0", "5.001", "Um"),
        Turn("6.0", "7.0", "So this,is"),
        Turn("8.0", "9.0", "Mm . Hmm mm-hmm kick-off .", ("8.5", "9.0")),
    ]
    write_annotations(small(Wearer("ES2011a", "B", "MEE002", 1, turns)), tmp_path / "corpus")
    lost = "ES2011a.B at 1.0 s (2), ES2011a.B at 3.0 s (2), ES2011a.B at 5.0 s (1)"
    said = prepared()[1]
    assert "dev: 7 words of 4 turns left out, as no time says when they were said: " in said
    assert f"{lost}, ES2011a.B at 6.0 s (2)\n" in said


def test_who_changes_headsets_is_named(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    turns = [HELLO, replace(HELLO, start="3.0", end="4.0", times=("4.0",), channel="2")]
    write_annotations(small(Wearer("ES2004a", "B", "MEE002", 1, turns)), tmp_path / "corpus")
    out, said = prepared()
    assert "eval: the segments of ES2004a.B name the channels 1, 2; all are taken from" in said
    assert "ES2004a_H01_MEE002_0000300_0000400" in (out / "data/eval/text").read_text()


def test_who_speaks_at_once_far_from_one_microphone_is_scored_apart(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    write_annotations(small(Wearer("ES2004a", "B", "MEE002", 1, [HELLO])), tmp_path / "corpus")
    sound = tmp_path / "corpus/ES2004a.Array1-01.wav"
    sound.touch()
    data = prepared("--mic=sdm")[0] / "data/eval"
    people = [f"AMI_ES2004a_SDM_{speaker}" for speaker in ("FEE001", "MEE002")]
    assert read_mapping(data / "wav.scp") == dict.fromkeys(people, str(sound.resolve()))
    assert list(read_text(data / "text")) == [f"{person}_0000100_0000200" for person in people]
    files = [f"ES2004a.Array1-01.{speaker}" for speaker in ("FEE001", "MEE002")]
    assert (data / "stm").read_text().splitlines() == [
        f"{file} A {person} 1 2 HELLO " for file, person in zip(files, people, strict=True)
    ]
    assert (data / "reco2file_and_channel").read_text().splitlines() == [
        f"{person} {file} A" for file, person in zip(files, people, strict=True)
    ]


def test_without_recordings_all_but_wav_scp_is_written(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    write_annotations(small(), tmp_path / "corpus")
    out, said = prepared()
    assert "3 of 3 recordings are missing" in said
    assert "136 of 137 meetings are not in the annotations" in said
    for name in SETS:
        folder = out / "data" / name
        assert (folder / "wav.scp").read_text() == ""
        for file in ("text", "segments", "utt2spk", "spk2utt", "stm", "glm"):
            assert (folder / file).read_text(), file


def test_meetings_are_chosen_by_files(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    write_annotations(small(Wearer("EN2001a", "E", "MEO069", 4, [HELLO])), tmp_path / "corpus")
    chosen = tmp_path / "eval.txt"
    chosen.write_text("ES2004a\nEN2001a\n")
    own = f"--eval-meetings={chosen}"
    assert "the meeting EN2001a is listed in train and eval" in prepared(own, fails=True)[1]
    (tmp_path / "train.txt").write_text("ES2002a\n")
    out, _ = prepared(own, f"--train-meetings={tmp_path / 'train.txt'}")
    recordings = (out / "data" / "eval" / "reco2file_and_channel").read_text()
    assert "AMI_EN2001a_H04 EN2001a.Headset-4 A\n" in recordings
    chosen.write_text("ES2004a\nES2004z\n")
    assert (
        "1 of 2 meetings are not in the annotations, such as ES2004z"
        in prepared(own, fails=True)[1]
    )


@pytest.mark.parametrize("mic", ["sdm1", "mdm8", "laptop"])
def test_other_microphones_are_refused_by_name(
    prepared: Callable[..., tuple[Path, str]], mic: str
) -> None:
    assert f"--mic {mic}: " in prepared(f"--mic={mic}", fails=True)[1]


DAMAGE = {
    "no annotations": ("corpusResources/meetings.xml", None, "no corpusResources/meetings.xml"),
    "a speaker without words": ("words/ES2002a.A.words.xml", None, "ES2002a.A.words.xml: No such"),
    "words cut off": ("words/ES2002a.A.words.xml", (b"</nite:root>", b""), "not XML: no element"),
    "a time that is none": (
        "words/ES2002a.A.words.xml",
        (b'time="1.0"', b'time="soon"'),
        "is 'soon', not",
    ),
    "a time that never comes": (
        "words/ES2002a.A.words.xml",
        (b'time="1.0"', b'time="nan"'),
        "is 'nan', not",
    ),
    "a time before the meeting": (
        "words/ES2002a.A.words.xml",
        (b'time="1.0"', b'time="-1"'),
        "is '-1', not",
    ),
    "a word of nowhere": (
        "segments/ES2002a.A.segments.xml",
        (b"id(ES2002a.A.words0)", b"id(ES2002a.A.words77)"),
        "ES2002a.A.words77 is not in the file of words",
    ),
    "a range of nothing": ("segments/ES2002a.A.segments.xml", (b"#id", b"id"), "is no range"),
    "a speaker without a name": (
        "corpusResources/meetings.xml",
        (b' global_name="FEE001"', b""),
        "a <speaker> without global_name",
    ),
    "a meeting somewhere else": (
        "corpusResources/meetings.xml",
        (b'observation="ES2002a"', b'observation="../ES2002a"'),
        "the observation '../ES2002a' is not of letters and digits",
    ),
    "a headset that is no number": (
        "corpusResources/meetings.xml",
        (b'channel="0"', b'channel="x"'),
        "'x' is no channel",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_annotations_are_named(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path, damage: str
) -> None:
    write_annotations(small(), tmp_path / "corpus")
    file, change, message = DAMAGE[damage]
    path = tmp_path / "corpus" / file
    if change is None:
        path.unlink()
    else:
        assert change[0] in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(*change))
    said = prepared(fails=True)[1]
    assert message in said
    assert said.count("\n") == 1


def test_words_and_perplexity_are_counted(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    """A unigram of ones own: each word and the end have 1/4; UM is not in it, YALINA nowhere."""
    turn = Turn("5.0", "6.0", "Hello um okay Yalina")
    write_annotations(small(Wearer("ES2011a", "B", "MEE002", 1, [turn])), tmp_path / "corpus")
    quarter = math.log10(0.25)
    lines = ["\\data\\", "ngram 1=4", "", "\\1-grams:"]
    lines += [f"{quarter} {word}" for word in ("HELLO", "OKAY", "THIS", "</s>")]
    (tmp_path / "lm.arpa").write_text("\n".join([*lines, "", "\\end\\", ""]))
    _, said = prepared(f"--lm={tmp_path / 'lm.arpa'}")
    assert "dev: 5 words, 40.00 % out of vocabulary, perplexity 4.0" in said


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    done = subprocess.run(
        [sys.executable, RECIPE / "prepare.py", "--corpus", tmp_path / "corpus"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("prepare.py: error: ")
    assert done.stderr.count("\n") == 1


def test_features_are_refused_while_recordings_are_missing(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_annotations(small(), tmp_path / "corpus")
    out, _ = prepared()
    assert main(["features", str(out / "data" / "train")]) == 1
    assert "wav.scp: lacks AMI_ES2002a_H00, of the segment" in capsys.readouterr().err
    assert not (out / "data" / "train" / "feats.scp").exists()
