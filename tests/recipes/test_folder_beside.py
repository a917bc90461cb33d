"""Words beside the sound files of a folder, in the formats of those who write them."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from bayes_asr.kaldi_io.text import read_text
from bayes_asr.recipe.folder.beside import write_beside
from bayes_asr.recipe.folder.sounds import find_sound
from tests.recipes.test_folder import SETS, make_corpus, prepare


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Ten speakers, each a folder of three files."""
    names = [f"speaker{s}/take{t}" for s in range(10) for t in range(3)]
    return make_corpus(tmp_path / "mine", dict.fromkeys(names, ""))


@pytest.fixture
def transcribed(corpus: Path) -> Path:
    """The same with a text beside each sound, and without a table of them."""
    (corpus / "text").unlink()
    for sound in find_sound(corpus):
        sound.with_suffix(".txt").write_text("words")
    return corpus


GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 1
tiers? <exists>
size = 3
item []:
    item [1]:
        class = "IntervalTier"
        name = "Words"
        xmin = 0
        xmax = 1
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 0.5
            text = ""
        intervals [2]:
            xmin = 0.5
            xmax = 1
            text = "naïve ""words"" 3"
    item [2]:
        class = "TextTier"
        name = "clicks"
        xmin = 0
        xmax = 1
        points: size = 1
        points [1]:
            number = 0.3
            mark = "tock"
    item [3]:
        class = "IntervalTier"
        name = "phones"
        xmin = 0
        xmax = 1
        intervals: size = 1
        intervals [1]:
            xmin = 0
            xmax = 1
            text = "n"
"""
SHORT = """File type = "ooTextFile"
Object class = "TextGrid"

0
1
<exists>
1
"IntervalTier"
"anybody"
0
1
1
0
1
"naïve ""words"" 3"
"""


# as Praat's manual has it under "TextGrid file formats": https://www.fon.hum.uva.nl/praat/manual/
COMMENTED = """"ooTextFile"
"TextGrid"
0 1 ! time domain of TextGrid
<exists>
2 tiers
"IntervalTier" "words" ! type and name of tier 1, "Mary"
0 1 ! time domain of tier 1
1 interval coming
0 1 "naïve ""words""
3" ! interval 1 on tier 1
"TextTier" "bell" ! type and name of tier 2
0 1 ! time domain of tier 2
0 points coming
"""


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".lab", 'naïve\n"words" 3\n'.encode()),
        (".txt", b'\xef\xbb\xbfna\xc3\xafve "words" 3'),
        (".TextGrid", GRID.encode("utf-16")),
        (".TextGrid", SHORT.encode()),
        (".TextGrid", COMMENTED.encode()),
    ],
    ids=["lab", "txt", "long", "short", "commented"],
)
def test_words_may_stand_beside_the_sound(
    suffix: str, content: bytes, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where that is asked for; else the message names the option."""
    (corpus / "text").unlink()
    for sound in sorted(corpus.rglob("*.wav"))[1:]:
        sound.with_suffix(suffix).write_bytes(content)
    out = tmp_path / "out"
    assert prepare(corpus, out) == 1
    assert "--set 'recipe.options=[--beside]' reads .lab" in capsys.readouterr().err
    assert prepare(corpus, out, "--beside") == 0
    text = out / "data/local/text"
    said = capsys.readouterr().out
    assert (
        f"{text}: of 29 files {suffix} beside the sound; 1 sound file has none and is left out"
        in said
    )
    words = [w for name in SETS for w in read_text(out / "data" / name / "text").values()]
    assert words == [["naïve", '"words"', "3"]] * 29
    (corpus / "text").touch()
    assert prepare(corpus, out, "--beside") == 1
    assert f"{corpus / 'text'}: is there, and --beside does without" in capsys.readouterr().err


def test_sounds_with_a_text_of_another_kind_are_not_without(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "text").unlink()
    lab, *sounds = find_sound(corpus)[1:]
    for sound in sounds:
        sound.with_suffix(".txt").write_text("words")
    sounds[0].with_suffix(".TextGrid").write_text(GRID)
    lab.with_suffix(".lab").write_text("words")
    assert prepare(corpus, tmp_path / "out", "--beside") == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "beside the sound" in x)
    other = lab.with_suffix(".lab").relative_to(corpus)
    assert "of 28 files .txt beside the sound; 1 sound file has a text of another kind" in line
    assert f"left out: {other}; 1 sound file has none and is left out" in line


def test_texts_beside_what_is_not_read_are_named(
    transcribed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for take in (0, 1):
        wav = transcribed / f"speaker4/take{take}.wav"
        shutil.move(wav, wav.with_suffix(".M4A"))
    (transcribed / "speaker4/take2.m4a").touch()  # beside one that is read
    assert prepare(transcribed, tmp_path / "out", "--beside") == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "beside the sound" in x)
    unread = transcribed / "speaker4/take0.M4A"
    assert "of 28 files .txt beside the sound; 2 files with texts are not read and left out" in line
    assert f"ffmpeg -i {unread} {unread.with_suffix('.wav')}" in line
    assert "take2" not in line


def test_all_texts_at_fault_are_named(
    transcribed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = [transcribed / f"speaker{number}/take1.txt" for number in (2, 5)]
    faulty[0].write_bytes("naïve".encode("latin-1"))
    faulty[1].write_text("0.0\t0.5\thello\n")
    assert prepare(transcribed, tmp_path / "out", "--beside") == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all(str(file) in line for file, line in zip(faulty, said, strict=True))


@pytest.mark.parametrize(
    ("options", "words", "fault"),
    [
        ([], "so —", ": — has no letter: take it out"),
        (["--fold"], "‘so’ '", ": ' has no letter: take it out"),
        ([], "so <s>", ": <s> is a symbol of decoding graphs"),
    ],
)
def test_faults_of_a_word_name_the_file_that_has_it(
    options: Sequence[str],
    words: str,
    fault: str,
    transcribed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table of all is written anew, so that nothing is mended there."""
    faulty = transcribed / "speaker3/take1.txt"
    faulty.write_text(words)
    assert prepare(transcribed, tmp_path / "out", "--beside", *options) == 1
    said = capsys.readouterr().err
    assert f"{faulty}{fault}" in said
    assert str(tmp_path / "out") not in said
    faulty.write_text("so")
    assert prepare(transcribed, tmp_path / "out", "--beside", *options) == 0


@pytest.mark.parametrize("text", ["9 1 4 1 7", "1 2 3", "7 7 yes", "0 1 yes\n3 2 no", "1 2"])
def test_numbers_that_are_said_are_no_times(corpus: Path, tmp_path: Path, text: str) -> None:
    for line in (corpus / "text").read_text().splitlines():
        (corpus / f"{line.split()[0]}.txt").write_text(text)
    (corpus / "text").unlink()
    written = tmp_path / "text"
    write_beside(corpus, written)
    assert {*map(tuple, read_text(written).values())} == {tuple(text.split())}


@pytest.mark.parametrize("pause", ["31000 31000 sp", "0 0 sil"])
def test_intervals_of_no_length_are_times_among_others(
    corpus: Path, tmp_path: Path, pause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """HTK writes a pause that nobody made as one of no length."""
    (corpus / "text").unlink()
    (corpus / "speaker0/take0.lab").write_text(f"0 31000 she\n{pause}\n31000 62000 had")
    assert prepare(corpus, tmp_path / "out", "--beside") == 1
    assert "has times" in capsys.readouterr().err


def test_faults_of_all_texts_name_their_kind(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "text").unlink()
    for number in (0, 1):
        (corpus / f"speaker{number}/take0.lab").write_text("words")
    assert prepare(corpus, tmp_path / "out", "--beside") == 1
    said = capsys.readouterr().err
    assert "files .lab beside the sound: 2 utterances are too few" in said
    assert str(tmp_path / "out") not in said


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("take.txt", b"0.0\t0.5\thello\n", "hello' has times"),
        ("take.txt", b"1\n00:00:01,0 --> 00:00:02,0\nhello\n", "00:00:02,0' has times"),
        ("take.txt", b"[00:00.00 --> 00:00.40]  hello\n", "hello' has times"),
        ("take.txt", b"[ti:greeting]\n[00:12.34] hello\n", "'[00:12.34] hello' has times"),
        ("take.txt", b"[0.00]\nhello\n[0.40]\n", "'[0.00]' has times"),
        ("take.txt", b"0:12\nhello\n", "'0:12' has times"),
        ("take.txt", b"<?xml version='1.0'?>", "take.txt: is markup, not a text of words alone"),
        ("take.lab", b'{"text": "hello"}', "take.lab: is markup"),
        ("take.txt", b"{\\rtf1 hello}", "take.txt: is an RTF document"),
        ("take.txt", b"PK\3\4", "take.txt: is an office document or an archive"),
        ("take.txt", "hel\u200blo".encode(), "take.txt: hel\\u200blo holds U+200B ZERO WIDTH"),
        ("take.lab", b"0 3100000 sil\n", "'0 3100000 sil' has times; here a text is words alone"),
        ("take.txt", b"0 9640 she had\n", "'0 9640 she had' has times"),
        ("take.lab", b"#!MLF!#\n0 3100 7\n3100 6200 8\n", "'0 3100 7' has times"),
        ("take.txt", b"0 5 hello\n5 9 you\n", "'0 5 hello' has times"),
        ("take.txt", "naïve".encode("latin-1"), "is not UTF-8"),
        ("take.TextGrid", b"naive words", "no TextGrid of Praat, or cut off"),
        ("take.TextGrid", GRID[:-20].encode(), "no TextGrid of Praat, or cut off"),
        # Montreal-Forced-Aligner #756: a size that is too small
        (
            "take.TextGrid",
            SHORT.replace('1\n0\n1\n"na', '1\n0\n0.5\n"a"\n0.5\n1\n"na').encode(),
            "has more intervals or tiers than it says",
        ),
        ("take.TextGrid", (GRID + GRID[GRID.index("    item [1]") :]).encode(), "than it says"),
        # #46, #851: an end before its begin, as aligners wrote it
        (
            "take.TextGrid",
            GRID.replace("xmin = 0.5", "xmin = 1.5").encode(),
            "from 1.5 to 1 s ends before it begins",
        ),
        (
            "take.TextGrid",
            GRID.replace("Words", "utterance").encode(),
            "its tiers of intervals are utterance, phones; call that of the words words",
        ),
        ("absent.lab", b"naive", "no sound file has a text beside it (.lab, .txt, .textgrid)"),
        ("one take.lab", b"naive", "its name has a space; rename it and its sound"),
    ],
)
def test_texts_beside_the_sound_are_checked(
    file: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_corpus(tmp_path / "mine", dict.fromkeys(["take", "one take"], ""))
    (folder / "text").unlink()
    (folder / file).write_bytes(content)
    assert prepare(folder, tmp_path / "out", "--beside") == 1
    assert message in capsys.readouterr().err


def test_what_macos_puts_beside_files_is_no_corpus(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "text").unlink()
    for sound in find_sound(corpus):
        sound.with_suffix(".lab").write_text("hello")
        for name in (f"._{sound.name}", f"._{sound.stem}.lab"):
            sound.with_name(name).write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        ")
    named = next(iter(find_sound(corpus))).with_name("._mine.wav")
    shutil.copy(find_sound(corpus)[0], named)
    assert prepare(corpus, tmp_path / "out", "--beside") == 0
    assert named in find_sound(corpus)  # by its name alone it would be one of them
    assert (
        "of 30 files .lab beside the sound; 1 sound file has none and is left out"
        in capsys.readouterr().out
    )
