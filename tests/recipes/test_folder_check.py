"""The one check of the recipe folder: all that is odd is said before anything is written."""

import os
import shlex
import subprocess
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.recipe.folder.utterances import key_utterances
from tests.attacks.breakages import unprivileged
from tests.recipes.test_folder import SETS, make_corpus, prepare

NAMES = [f"s{s}/t{t}" for s in range(6) for t in range(3)]
ARPA = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1 </s>
-99 <s> -0.3
-0.5 {0} -0.3
-0.5 {1}

\\2-grams:
-0.3 <s> {0}
-0.3 {0} {1}

\\end\\
"""


def refuse(corpus: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a refusal, which leaves nothing behind."""
    assert prepare(corpus, corpus.parent / "out") == 1
    assert not (corpus.parent / "out").exists()
    return capsys.readouterr().err.splitlines()


def test_all_that_is_odd_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello world"))
    (corpus / "lexicon.txt").write_text("HELLO h e l o\nWORLD w o r l d\n")
    (corpus / "lm.arpa").write_text(ARPA.format("hello", "world"))
    (corpus / "utt2spk").write_text("s0/t0\u00a0x a\n")
    errors = refuse(corpus, capsys)
    assert len(errors) == 3
    assert "utt2spk, line 1: s0/t0\\xa0x holds U+00A0 NO-BREAK SPACE" in errors[0]
    assert "utt2spk: no speaker for 18 of 18 names" in errors[1]
    assert "lm.arpa: has no word of the lexicon, whose 2 words are such as HELLO, WOR" in errors[2]


def test_a_model_of_other_words_than_those_that_are_spelled_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a lexicon.txt, the words of train are spelled by their letters."""
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello world"))
    (corpus / "lm.arpa").write_text(ARPA.format("HALLO", "WELT"))
    (error,) = refuse(corpus, capsys)
    assert "lm.arpa: has no word of the lexicon, whose " in error


def test_a_folder_of_sounds_that_may_not_be_read_is_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello world"))
    (corpus / "text").unlink()
    for name in NAMES:
        (corpus / f"{name}.txt").write_text("hello world\n")
    (corpus / "s5").chmod(0)
    with unprivileged():
        assert prepare(corpus, tmp_path / "out", "--beside") == 1
    (corpus / "s5").chmod(0o700)
    assert f"{corpus / 's5'}: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "text",
            "s0/t0 a\u00a0b\ns0/t1 a\u3000b\n",
            "line 1: a\\xa0b holds U+00A0 NO-BREAK SPACE (and",
        ),
        ("text", "s0/t0 a\u200bb\n", "line 1: a\\u200bb holds U+200B ZERO WIDTH SPACE"),
        ("text", "s0/t0 a\x1cb\n", "line 1: a\\x1cb holds U+001C control character"),
        ("text", "s0/t0 a\n\ufeffs0/t1 b\n", "line 2: \\ufeffs0/t1 holds U+FEFF"),
        (
            "text",
            "s0/t0 a\ns0/t1 w\u00c3\u00b6rld\n",
            "line 2: w\u00c3\u00b6rld is UTF-8 that was read as",
        ),
        ("text", "s0/t0 w\ufffdrld\n", "U+FFFD REPLACEMENT CHARACTER; a letter was lost in a conv"),
        ("text", "s0/t0 a\rs0/t1 b\n", "text, line 1: holds a carriage return, the end of a line"),
        ("text", "s0/t0 <eps> a\n", "text, line 1: <eps> is a symbol of decoding graphs"),
        ("text", "s0/t0 a\ns0/t1 #0 </s>\n", "text, line 2: #0 is a symbol of decoding graphs"),
        ("text", "s0/t0 a (<s>)\n", "text, line 1: <s> is a symbol of decoding graphs"),
        ("text", "s0/t0.wav a\n", "the first is s0/t0.wav; write s0/t0, without the extension"),
        ("text", "S0/t0 a\n", "there is s0/t0, which differs in upper and lower case"),
        ("lexicon.txt", "hello h e l o_B\n", "hello has a phone that ends in one of _B"),
        ("lexicon.txt", "hello\u2028 h e\n", "line 1: hello\\u2028 holds U+2028 LINE SEPARATOR"),
        ("lexicon.txt", "<s> SIL\n", "line 1: <eps>, #0, <s>, </s>"),
        ("text", "path,sentence\ns0/t0,a b\n", "write s0/t0 and a space in the place of s0/t0,a"),
        ("text", '"s0/t0","a b"\n', 'write s0/t0 and a space in the place of "s0/t0","a'),
        ("text", "/data/x/s0/t0.wav a b\n", "write s0/t0 and a space in the place of /data/x/s0"),
        ("text", "x\\s0\\t0 a b\n", "write s0/t0 and a space in the place of x"),
        ("text", "s0/t0 1 s0 0.0 1.5 a\n", "each line is of an STM, not of a text, which has"),
        ("text", "s0/t0 0.0 1.5 a b\n", "each line is of a text with times, not of a text"),
        ("dev", "s0 s1 s2\n", "dev, line 1: has 3 names, of which only the first would be read"),
        ("dev", "s0,\n", "dev: s0, is neither a name of text nor a speaker; names are such as s0/"),
        ("dev", "s0\u200e\n", "line 1: s0\\u200e holds U+200E LEFT-TO-RIGHT MARK"),
    ],
)
def test_files_are_checked_by_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, message: str
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    (corpus / file).write_text(content, encoding="utf-8", newline="")
    assert message in refuse(corpus, capsys)[0]


@pytest.mark.parametrize("table", ["text", "utt2spk", "lexicon.txt", "lm.arpa", "dev"])
def test_links_that_lead_nowhere_are_no_missing_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    (corpus / table).unlink(missing_ok=True)
    (corpus / table).symlink_to("nowhere")
    assert f"{table}: a link that leads to no file; replace it" in refuse(corpus, capsys)[0]
    if table != "dev":
        (corpus / table).unlink()
        (corpus / table).mkdir()
        assert f"{table}: a folder, where a file is due; rename it" in refuse(corpus, capsys)[0]


@pytest.mark.parametrize("folder", ["a\nb", "a\rb", "a\udce4b"])
def test_paths_that_tables_cannot_hold_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    (corpus / "s0").rename(corpus / folder)
    (corpus / folder / "t0.wav").rename(corpus / folder / "x.wav")
    (corpus / "text").write_text("x hello\ns1/t0 hello\ns2/t0 hello\n")
    assert "has the end of a line or a letter that is not UTF-8" in refuse(corpus, capsys)[0]


def test_what_may_not_be_meant_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = dict.fromkeys(NAMES, "\u4eca\u5929\u5929\u6c14\u5f88\u597d") | {"s2/t1": "track 12"}
    corpus = make_corpus(tmp_path / "c", texts)
    for file in ("lexiconp.txt", "segments", "lm.arpa.gz", ".DS_Store"):
        (corpus / file).write_text("x\n")
    (corpus / "s0/t0.wav").write_bytes(b"")
    (corpus / "s0/t1.wav").unlink()
    (corpus / "s0/t1.wav").symlink_to("nowhere.wav")
    cut = corpus / "s1/t0.wav"
    cut.write_bytes(cut.read_bytes()[:-1000])
    assert prepare(corpus, tmp_path / "out") == 0
    remarks = capsys.readouterr().out
    assert f"{corpus}: not read: lexiconp.txt, lm.arpa.gz, segments (what is read is" in remarks
    assert "3 of 18 files cannot be read as sound, at which stage 1 will stop: " in remarks
    assert f"{corpus / 's0/t0.wav'}" in remarks
    assert f"{cut}" in remarks
    assert "17 of 19 words have no space within five or more letters of a language" in remarks
    assert "1 word is spelled by digits, such as 12; write numbers as they are" in remarks


def test_first_channel_of_silence_is_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    soundfile = pytest.importorskip("soundfile")
    sound, rate = soundfile.read(corpus / "s0/t0.wav")
    soundfile.write(corpus / "s0/t0.wav", np.stack([0 * sound, sound], axis=1), rate)
    assert prepare(corpus, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "1 of 18 files are digital silence on their first channel" in said
    assert f"sox {corpus / 's0/t0.wav'} OUT.wav remix 2" in said
    soundfile.write(corpus / "s0/t0.wav", np.stack([0 * sound, 0 * sound], axis=1), rate)
    soundfile.write(corpus / "s0/t1.wav", np.stack([sound, 0 * sound], axis=1), rate)
    assert prepare(corpus, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert f"1 of 18 files are digital silence, without any sound: {corpus / 's0/t0.wav'};" in said
    assert "first channel" not in said


def test_joiners_of_persian_stay(tmp_path: Path) -> None:
    word = "می\u200cخواهم"
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, word))
    assert prepare(corpus, tmp_path / "out") == 0
    assert {*map(tuple, read_text(tmp_path / "out/data/train/text").values())} == {(word,)}


def test_speakers_that_case_alone_sets_apart_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{who}/t{t}" for who in ("Ana", "ana", "bo", "cy", "STRAßE", "strasse") for t in "01"]
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(names, "hello world"))
    assert prepare(corpus, tmp_path / "out") == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("speakers differ"))
    assert "Ana and ana, STRAßE and strasse;" in line
    speakers = {*read_mapping(tmp_path / "out/data/train/utt2spk").values()}
    assert speakers <= {"Ana", "ana", "bo", "cy", "STRAßE", "strasse"}, "they stay as they are"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_and_words_are_one_unicode_form(tmp_path: Path, form: str) -> None:
    spelled = lambda text: unicodedata.normalize(form, text)  # noqa: E731
    other = "NFD" if form == "NFC" else "NFC"
    names = [unicodedata.normalize(other, f"{s}é/{t}") for s in "abcd" for t in "xy"]
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(names, "wäter thé"))
    (corpus / "text").write_text(spelled((corpus / "text").read_text()))
    (corpus / "dev").write_text(unicodedata.normalize(other, "aé\n"))
    (corpus / "test").write_text(spelled("bé\n"))
    (corpus / "lexicon.txt").write_text(spelled("wäter w ä t e r\nthé t h e\n"))
    (corpus / "lm.arpa").write_text(unicodedata.normalize(other, ARPA.format("wäter", "thé")))
    assert prepare(corpus, tmp_path / "out") == 0
    written = [*(tmp_path / "out").rglob("*")]
    for path in written:
        content = path.read_text() if path.is_file() and path.name != "wav.scp" else ""
        assert content == unicodedata.normalize("NFC", content)
    for file in read_mapping(tmp_path / "out/data/dev/wav.scp").values():
        assert Path(file).is_file()
    assert ("thé",) in read_arpa(tmp_path / "out/data/local/lm.arpa").log_prob


@pytest.mark.parametrize(
    ("speakers", "key"),
    [
        (["1", "2", "10"], "1-1_a"),
        (["anna", "anna+bert", "cora"], "anna!anna_a"),
        (["anna", "anna-bert", "cora"], "anna-anna_a"),
        (["anna", "bert"], "anna_a"),
    ],
)
def test_utterances_are_in_order_of_speakers_too(speakers: Sequence[str], key: str) -> None:
    names = {f"{speaker}_{utt}": speaker for speaker in speakers for utt in "abz"}
    keys = key_utterances(names)
    assert min(keys.values()) == key
    pairs = sorted((keys[name], speaker) for name, speaker in names.items())
    assert [s for _, s in pairs] == sorted(s for _, s in pairs)


def test_no_order_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_corpus(tmp_path / "c", {f"{s}/{t}": "a" for s in ("a", "a!b") for t in "az"})
    assert "speakers a" in refuse(corpus, capsys)[0]


def test_sort_of_the_shell_agrees(tmp_path: Path) -> None:
    """The two commands of Kaldi's validate_data_dir.sh."""
    names = [f"{s}/{t}" for s in ("anna", "anna+bert", "1", "10", "é") for t in "az"]
    assert prepare(make_corpus(tmp_path / "c", dict.fromkeys(names, "a")), tmp_path / "out") == 0
    for name in SETS:
        table = tmp_path / "out/data" / name / "utt2spk"
        for options in (["-k1", "-uC"], ["-k2", "-C"]):
            subprocess.run(["sort", *options, str(table)], env={"LC_ALL": "C"}, check=True)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["a/x.wav", "a/x.lab"], "the files .lab beside the sound are not read: write a line"),
        (["a/x.wav", "a/1-2.trans.txt"], "-name '*.trans.txt' -exec cat {} + > "),
        (["wav.scp"], "what wav.scp names is not read"),
        (["a/x.wav", "Text"], "or is it Text? rename it, and save it as plain text"),
        (["a/x.wav", "text.txt"], "or is it text.txt? rename it"),
        (["a/x.m4a", "b/y.m4a"], "no sound files"),
    ],
)
def test_a_missing_text_says_what_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: Sequence[str], message: str
) -> None:
    for file in files:
        (tmp_path / "c" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / file).write_text("")
    errors = refuse(tmp_path / "c", capsys)
    assert "text: is missing; it has a line `NAME WORD WORD ...`" in errors[0]
    assert "seen there: " in errors[0]
    assert any(message in error for error in errors)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("s0/t0.m4a", "there is s0/t0.m4a, which is not read: convert it"),
        ("s0/t0.WAV.wav", "there is s0/t0.WAV.wav: rename it s0/t0.wav"),
    ],
)
def test_sound_of_other_names_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, message: str
) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    (corpus / "s0/t0.wav").rename(corpus / file)
    assert message in refuse(corpus, capsys)[0]


def test_a_sound_to_convert_is_named_as_it_is_on_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {("s0/ş_ö" if known == "s0/t0" else known): "hello" for known in NAMES}
    corpus = make_corpus(tmp_path / "my c", texts)
    (corpus / "s0/ş_ö.wav").rename(corpus / unicodedata.normalize("NFD", "s0/ş_ö.m4a"))
    command = refuse(corpus, capsys)[0].partition("for example by ")[2]
    program, option, source, target = shlex.split(command)
    assert (program, option) == ("ffmpeg", "-i")
    Path(source).rename(target)  # what a conversion would do
    assert prepare(corpus, tmp_path / "out") == 0


def test_unknown_words_are_spelled_by_nobody(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello <UNK> <unk>"))
    assert prepare(corpus, tmp_path / "out") == 0
    lexicon = (tmp_path / "out/data/local/dict/lexicon.txt").read_text()
    assert lexicon == "<UNK> SPN\nhello h e l l o\n"


def test_transcripts_without_words_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = dict.fromkeys(NAMES, "hello") | {"s1/t1": "", "s2/t0": ""}
    assert prepare(make_corpus(tmp_path / "c", texts), tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "2 of 18 transcripts have no words and are learnt as silence: s1/t1, s2/t0" in said


def test_digital_silence_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    silent = corpus / "s3/t1.wav"
    silent.write_bytes(silent.read_bytes()[:44] + bytes(silent.stat().st_size - 44))
    assert prepare(corpus, tmp_path / "out") == 0
    assert (
        f"1 of 18 files are digital silence, without any sound: {silent};"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["s3/t1.wav", "lexicon.txt", "dev"])
@pytest.mark.parametrize("target", ["", "/dev/zero"])
def test_what_has_no_end_is_refused(
    tmp_path: Path, name: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe, to which nobody writes, and a device."""
    corpus = make_corpus(tmp_path / "c", dict.fromkeys(NAMES, "hello"))
    (corpus / name).unlink(missing_ok=True)
    if target:
        (corpus / name).symlink_to(target)
    else:
        os.mkfifo(corpus / name)
    (line,) = refuse(corpus, capsys)
    assert f"{corpus / name}: is a pipe or a device; give a file" in line
