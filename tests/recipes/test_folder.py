"""The recipe of any folder of sound: what is made where nothing is given, and what is refused."""

import runpy
import shutil
import time
import unicodedata
import wave
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.graph.lexicon import Pronunciation
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.recipe.folder.sounds import find_sound
from bayes_asr.recipe.folder.utterances import read_transcripts
from tests.support.places import RECIPES

SETS = ("train", "dev", "test")


def prepare(corpus: Path, out: Path, *options: str) -> int:
    """Run the recipe's script in this process; its status."""
    recipe = runpy.run_path(str(RECIPES / "folder/prepare.py"))
    return recipe["main"](["--corpus", str(corpus), "--out", str(out), *options])


def make_corpus(folder: Path, texts: Mapping[str, str], suffix: str = ".wav") -> Path:
    """A second of one tone for each name, and `text`."""
    for name in texts:
        file = folder / f"{name}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(file), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            sound.writeframes(bytes((0, 0, 0, 8)) * 8000)
    (folder / "text").write_text("".join(f"{name} {words}\n" for name, words in texts.items()))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Ten speakers, each a folder of three files."""
    names = [f"speaker{s}/take{t}" for s in range(10) for t in range(3)]
    return make_corpus(tmp_path / "mine", dict.fromkeys(names, "naïve words"))


def speakers(out: Path, name: str) -> set[str]:
    return set(read_mapping(out / "data" / name / "utt2spk").values())


def test_tables_of_every_set_are_sorted(tmp_path: Path) -> None:
    """Each file is a speaker, of whom several are drawn for dev and for test."""
    names = [f"take{number}" for number in range(40)]
    corpus = make_corpus(tmp_path / "mine", dict.fromkeys(names, "words"))
    assert prepare(corpus, tmp_path / "out") == 0
    for name in SETS:
        for table in ("text", "wav.scp", "utt2spk"):
            keys = [*read_text(tmp_path / "out/data" / name / table)]
            assert keys == sorted(keys), (name, table)


def test_folders_may_be_links(corpus: Path, tmp_path: Path) -> None:
    """A link that leads back is followed once."""
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "text").write_bytes((corpus / "text").read_bytes())
    for folder in corpus.glob("speaker*"):
        (linked / folder.name).symlink_to(folder)
    (corpus / "speaker0/back").symlink_to(linked)
    assert prepare(linked, tmp_path / "out") == 0
    assert set.union(*(speakers(tmp_path / "out", n) for n in SETS)) == {
        f"speaker{s}" for s in range(10)
    }


@pytest.mark.parametrize("name", ["lost+found", ".Trash-1000", "System Volume Information"])
def test_what_systems_keep_on_a_drive_is_no_corpus(corpus: Path, name: str) -> None:
    found = find_sound(corpus)
    (corpus / name).mkdir()
    shutil.copy(found[0], corpus / name)
    assert find_sound(corpus) == found


def test_folders_are_speakers_and_sets_share_none(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(corpus, tmp_path / "out") == 0
    sets = {name: speakers(tmp_path / "out", name) for name in SETS}
    assert set.union(*sets.values()) == {f"speaker{s}" for s in range(10)}
    assert sum(map(len, sets.values())) == 10
    assert [len(sets[name]) for name in SETS] == [8, 1, 1]
    said = capsys.readouterr().out
    for name in ("dev", "test"):
        (speaker,) = sets[name]
        assert f"{name}: 3 utterances of speakers {speaker} (no {corpus / name})" in said
    for name in SETS:
        for utt, file in read_mapping(tmp_path / "out/data" / name / "wav.scp").items():
            assert utt == Path(file).relative_to(corpus).with_suffix("").as_posix().replace(
                "/", "-"
            )


@pytest.mark.parametrize(
    ("sizes", "listed", "shared"),
    [
        ({"main": 28, "bob": 4, "cy": 4, "dee": 4}, "", set()),
        ({"main": 28, "bob": 4, "cy": 4}, "", set()),
        ({"main": 36, "bob": 4}, "main/0", {"main"}),  # a part of main, and nobody's of test
        ({"main": 36, "bob": 4, "cy": 4}, "bob", set()),
        ({"one": 10, "two": 10}, "", {"one", "two"}),
        ({"main": 98, "bob": 1, "cy": 1}, "", {"main"}),  # too little of whole speakers
        ({"main": 50, "one": 40, "bob": 9, "cy": 1}, "", {"main", "one", "bob"}),  # for both sets
        ({"main": 90, **dict.fromkeys("abcdefghij", 1)}, "", set()),  # half of them for each
    ],
)
def test_sets_share_speakers_only_where_these_are_few(
    sizes: dict[str, int], listed: str, shared: set[str], tmp_path: Path
) -> None:
    """dev, where it is listed, leaves the others to test and train."""
    names = [f"{speaker}/{number}" for speaker, size in sizes.items() for number in range(size)]
    corpus = make_corpus(tmp_path / "mine", dict.fromkeys(names, "words"))
    if listed:
        (corpus / "dev").write_text(f"{listed}\n")
    assert prepare(corpus, tmp_path / "out") == 0
    train, dev, test = (speakers(tmp_path / "out", name) for name in SETS)
    assert (dev | test) & train == shared
    assert dev & test <= shared
    for name in ("dev", "test"):
        least = len(names) / 20 if name == "test" or not listed else 1
        assert len(read_text(tmp_path / "out/data" / name / "text")) >= least


def test_folders_that_are_called_as_sets_are_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until the file that is missing lists them."""
    names = [f"{name}/{name}{s}/{take}" for name in SETS for s in range(4) for take in range(3)]
    corpus = make_corpus(tmp_path / "mine", dict.fromkeys(names, "words"))
    assert prepare(corpus, tmp_path / "out") == 0
    said = capsys.readouterr().out
    for name in ("dev", "test"):
        assert f"({corpus / name} is a folder as any other; to have it as this set, rename" in said
        (corpus / name).rename(corpus / f"of_{name}")
        (corpus / name).write_text("".join(f"of_{name}-{name}{s}\n" for s in range(4)))
    text = corpus / "text"
    text.write_text(text.read_text().replace("dev/", "of_dev/").replace("test/", "of_test/"))
    assert prepare(corpus, tmp_path / "out") == 0
    for name in ("dev", "test"):
        assert speakers(tmp_path / "out", name) == {f"of_{name}-{name}{s}" for s in range(4)}


def test_words_are_spelled_by_letters(corpus: Path, tmp_path: Path) -> None:
    text = corpus / "text"
    # a letter and its accent as two characters: NFC makes one of them; x with an accent has no such
    text.write_text(text.read_text().replace("naïve", unicodedata.normalize("NFD", "Naïve x́o")))
    assert prepare(corpus, tmp_path / "out") == 0
    local = tmp_path / "out/data/local"
    assert (local / "dict/lexicon.txt").read_text() == (
        "<UNK> SIL\nNaïve n a ï v e\nwords w o r d s\nx́o x́ o\n"
    )
    assert (local / "dict/silence_phones.txt").read_text() == "SIL\n"
    assert read_arpa(local / "lm.arpa").order == 3
    for words in read_text(tmp_path / "out/data/train/text").values():
        assert words == ["Naïve", "x́o", "words"]


def test_what_is_given_is_used(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = sorted(read_text(corpus / "text"))
    (corpus / "utt2spk").write_text("".join(f"{name} {name[-1]}\n" for name in names))
    (corpus / "dev").write_text("0\n")  # a speaker
    (corpus / "test").write_text(f"{names[1]}\n{names[4]}\n")  # utterances
    (corpus / "lexicon.txt").write_text("words W ER D Z\nother AH DH ER\n")
    (corpus / "lm.arpa").write_text(
        "\\data\\\nngram 1=3\n\n\\1-grams:\n-99 <s>\n-1 </s>\n-0.5 words\n\n\\end\\\n"
    )
    assert prepare(corpus, tmp_path / "out") == 0
    assert speakers(tmp_path / "out", "dev") == {"0"}
    assert len(read_text(tmp_path / "out/data/dev/text")) == 10
    assert sorted(read_text(tmp_path / "out/data/test/text")) == [
        "1-speaker0-take1",
        "1-speaker1-take1",
    ]
    assert (tmp_path / "out/data/local/dict/lexicon.txt").read_text() == (
        "<UNK> SPN\nother AH DH ER\nwords W ER D Z\n"
    )
    assert read_arpa(tmp_path / "out/data/local/lm.arpa").order == 1
    assert "2 utterances, 4 words, 2 of them not in the lexicon" in capsys.readouterr().out


def test_words_of_train_that_the_lexicon_lacks_are_pronounced(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g2p = SimpleNamespace(pronounce=lambda word: Pronunciation(word, 0.5, ("AH", "W")))
    monkeypatch.setattr("bayes_asr.decode.g2p.model.load_g2p", lambda run: g2p)
    (corpus / "lexicon.txt").write_text("words W ER D Z\nother AH DH ER\n")
    assert prepare(corpus, tmp_path / "out", "--g2p", "MODEL") == 0
    assert (tmp_path / "out/data/local/dict/lexicon.txt").read_text() == (
        "<UNK> SIL\nnaïve AH W\nother AH DH ER\nwords W ER D Z\n"
    )
    assert "lexicon: naïve AH W (by MODEL)" in capsys.readouterr().out
    (corpus / "lexicon.txt").unlink()
    assert prepare(corpus, tmp_path / "alone", "--g2p", "MODEL") == 1
    assert "pronounces words that lexicon.txt lacks" in capsys.readouterr().err
    assert not (tmp_path / "alone").exists()


def test_few_speakers_are_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_corpus(tmp_path / "mine", {f"{s}/{t}": "yes" for s in "ab" for t in range(10)})
    assert prepare(corpus, tmp_path / "out") == 0
    assert "dev: 2 utterances of speakers whom train has too" in capsys.readouterr().out
    assert [len(read_text(tmp_path / "out/data" / name / "text")) for name in SETS] == [16, 2, 2]


def test_a_large_speaker_stays_in_train(tmp_path: Path) -> None:
    texts = {f"large/{t}": "yes" for t in range(40)} | {f"s{s}/0": "yes" for s in range(20)}
    assert prepare(make_corpus(tmp_path / "mine", texts), tmp_path / "out") == 0
    assert "large" in speakers(tmp_path / "out", "train")
    assert "large" not in speakers(tmp_path / "out", "dev") | speakers(tmp_path / "out", "test")


def test_files_without_transcript_are_counted(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "speaker0/more.wav").write_bytes((corpus / "speaker0/take0.wav").read_bytes())
    assert prepare(corpus, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert f"1 file is not in {corpus / 'text'}, the first is {corpus}/speaker0/more.wav" in said


def test_a_path_goes_before_the_end_of_another(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(corpus / "speaker0/take0.wav", corpus / "take0.wav")
    with (corpus / "text").open("a") as text:
        text.write("take0 words\n")
    assert prepare(corpus, tmp_path / "out") == 0
    files = [
        file
        for name in SETS
        for file in read_mapping(tmp_path / "out/data" / name / "wav.scp").values()
    ]
    assert sorted(files) == sorted(map(str, find_sound(corpus)))
    assert "left out" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["speaker0/twice", "twice"])
def test_one_path_of_two_files_asks_for_one_of_them(
    name: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No name could tell them apart."""
    for suffix in (".wav", ".WAV"):
        shutil.copy(corpus / "speaker0/take0.wav", corpus / f"speaker0/twice{suffix}")
    with (corpus / "text").open("a") as text:
        text.write(f"{name} words\n")
    assert prepare(corpus, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"{name} is 2 files: speaker0/twice.WAV, speaker0/twice.wav; remove or rename" in said
    (corpus / "speaker0/twice.WAV").unlink()
    assert prepare(corpus, tmp_path / "out") == 0


def test_speakers_are_one_word(tmp_path: Path) -> None:
    """Folders may have spaces in their names: Kaldi's tables may not."""
    corpus = make_corpus(
        tmp_path / "mine", {f"Änne  {s}/{s}{t}": "yes" for s in "abc" for t in "12"}
    )
    (corpus / "text").write_text("".join(f"{s}{t} yes\n" for s in "abc" for t in "12"))
    assert prepare(corpus, tmp_path / "out") == 0
    assert set.union(*(speakers(tmp_path / "out", name) for name in SETS)) == {
        f"Änne_{s}" for s in "abc"
    }


def test_a_name_with_a_space_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_corpus(tmp_path / "mine", {"a b/one": "yes", "a b/two": "no", "a/one": "yes"})
    assert prepare(corpus, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"{corpus / 'text'}, line 1: a b/one has a space, where a name ends" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_names_with_spaces_are_looked_for_in_time_in_proportion(tmp_path: Path) -> None:
    """Each line was held against each file: these took half a minute."""
    corpus, text = tmp_path / "mine", tmp_path / "mine/text"
    for speaker in range(40):
        (corpus / f"the speaker {speaker}").mkdir(parents=True)
        for take in range(100):
            (corpus / f"the speaker {speaker}/{speaker}-{take}.wav").touch()
    words = "the speaker says this " * 10
    lines = [f"{s}-{t} {words}\n" for s in range(40) for t in range(100)]
    text.write_text("".join(lines))
    began = time.process_time()
    assert len(read_transcripts(text, corpus, str)) == 4000
    assert time.process_time() - began < 6
    text.write_text("".join([*lines, f"the speaker 7/7-1 {words}\n"]))
    with pytest.raises(InputError, match=r"line 4001: the speaker 7/7-1 has a space"):
        read_transcripts(text, corpus, str)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("text", "nobody hello\n", "no sound file for 1 of 1 names, the first is nobody"),
        ("text", "", "empty; write"),
        ("text", "take1 hello\n", "take1 is 10 files: speaker0/take1.wav, "),
        ("text", "take1 a\ntake1 b\n", "name them by their paths, such as speaker0/take1"),
        ("text", "speaker0/take1 a\nspeaker1/take1 a\n", "2 utterances are too few"),
        ("utt2spk", "speaker0/take0 me\n", "no speaker for 29 of 30 names"),
        ("dev", "nobody\n", "nobody is neither a name of text nor a speaker"),
        ("dev", "\n", "empty; list speakers or files, or remove it"),
        ("lexicon.txt", "WORDS w er d z\n", "48 of 48 words of train are not in it"),
    ],
)
def test_mistakes_take_one_line(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: str,
    message: str,
) -> None:
    (corpus / file).write_text(content)
    assert prepare(corpus, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_word_without_letters_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = corpus / "text"
    lines = text.read_text().splitlines(keepends=True)
    text.write_text("\n" + lines[0].replace("words", "- %") + "".join(lines[1:]))
    assert prepare(corpus, tmp_path / "out") == 1
    assert f"{text}, line 2: % has no letter (nor -): take it out" in capsys.readouterr().err


def test_lists_that_overlap_or_leave_nothing_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "dev").write_text("speaker0\n")
    (corpus / "test").write_text("speaker0/take1\n")
    assert prepare(corpus, tmp_path / "out") == 1
    assert "speaker0/take1 is in dev and in test" in capsys.readouterr().err
    (corpus / "test").write_text("".join(f"speaker{s}\n" for s in range(1, 10)))
    assert prepare(corpus, tmp_path / "out") == 1
    assert "dev and test leave nothing to train on" in capsys.readouterr().err


def test_names_that_become_one_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(tmp_path / "mine", {"a/b/c": "yes", "a-b/c": "no"})
    (corpus / "utt2spk").write_text("a/b/c a\na-b/c a\n")
    assert prepare(corpus, tmp_path / "out") == 1
    assert "would both be called a-b-c; rename a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("one", "other"), [("a/b", "a-b"), ("a b", "a_b"), (".", "mine"), ("x/a\u0308", "x/\xe4")]
)
def test_folders_that_would_be_one_speaker_are_refused(
    one: str, other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each folder is a speaker; whether two are the same person, utt2spk says."""
    corpus = make_corpus(
        tmp_path / "mine", {f"{one}/1": "yes", f"{other}/2": "no", "c/3": "yes", "d/4": "no"}
    )
    (corpus / "text").write_text("1 yes\n2 no\n3 yes\n4 no\n")
    assert prepare(corpus, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"{corpus / one} and {corpus / other} " in said
    assert str(corpus / "utt2spk") in said
    (corpus / "utt2spk").write_text("1 me\n2 me\n3 c\n4 d\n")
    assert prepare(corpus, tmp_path / "out") == 0


def test_the_sets_have_features(corpus: Path, tmp_path: Path) -> None:
    """What is written is a data directory of Kaldi's kind: `features` reads it."""
    assert prepare(corpus, tmp_path / "out") == 0
    assert main(["features", str(tmp_path / "out/data/dev")]) == 0
    assert (tmp_path / "out/data/dev/feats.scp").read_text().count("\n") == 3
