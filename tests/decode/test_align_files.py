"""bayes-asr align RUN FILE --text TEXT: tones with known times, and what is refused."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import align, main
from bayes_asr.decode.align.timed_files import TimedFiles
from bayes_asr.decode.align_files import AlignedFile
from bayes_asr.decode.align_long import LongAlignment
from bayes_asr.decode.lattices.ctm import TimedLabel
from tests.support.sounds import riff
from tests.support.textgrids import read_textgrid
from tests.support.tones import RATE, command, speak

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
errors = pytest.importorskip("praatio.utilities.errors")
pytestmark = pytest.mark.slow
WORDS = ["six", "one", "two", "two"]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A file of four words, and its text beside it."""
    spoken = speak(WORDS, np.random.default_rng(99))
    (tmp_path / "talk.wav").write_bytes(riff(spoken.samples))
    (tmp_path / "talk.txt").write_text("six one\ntwo two\n")
    return tmp_path / "talk.wav"


def test_words_and_phones_are_where_they_were_spoken(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoken, out = speak(WORDS, np.random.default_rng(99)), tmp_path / "out"
    text = ("--text", sound.with_suffix(".txt"))
    command("align", run, sound, *text, "--textgrid", tmp_path, "--out", out, "--json")
    printed = capsys.readouterr()
    aligned = json.loads(printed.out)
    assert "disagree" not in printed.err
    assert aligned["confidence"] > 0.8
    assert [word["label"] for word in aligned["words"]] == WORDS
    for word, (_, start, end) in zip(aligned["words"], spoken.words, strict=True):
        assert word["start"] == pytest.approx(start, abs=0.03)
        assert word["end"] == pytest.approx(end, abs=0.03)
    assert [phone["label"] for phone in aligned["phones"]] == spoken.phones
    end, tiers = read_textgrid(tmp_path / "talk.TextGrid")
    assert end == pytest.approx(len(spoken.samples) / RATE)
    for tier in ("words", "phones"):
        assert tiers[tier] == [(x["start"], x["end"], x["label"]) for x in aligned[tier]]
        lines = [line.split() for line in (out / f"{tier}.ctm").read_text().splitlines()]
        assert [line[4] for line in lines] == [x["label"] for x in aligned[tier]]
        assert [float(line[2]) for line in lines] == [x["start"] for x in aligned[tier]]


def test_words_behind_digital_silence_are_where_they_were_spoken(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoken, file, text = speak(WORDS, np.random.default_rng(99)), tmp_path / "a.wav", tmp_path / "a"
    file.write_bytes(riff(np.concatenate([np.zeros((2 * RATE, 1), np.int16), spoken.samples])))
    text.write_text(" ".join(WORDS))
    command("align", run, file, "--text", text, "--json")
    aligned = json.loads(capsys.readouterr().out)
    for word, (_, start, end) in zip(aligned["words"], spoken.words, strict=True):
        assert word["start"] == pytest.approx(2 + start, abs=0.03)
        assert word["end"] == pytest.approx(2 + end, abs=0.03)


def test_a_text_of_another_file_is_doubted(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.txt").write_text("one six six one\n")
    command("align", run, sound, "--text", tmp_path / "wrong.txt")
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{sound}: one six six one\n")
    assert f"{sound}: text and sound disagree: confidence below 0.6, it is 0." in printed.err


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "six zebra",
            [],
            "talk.wav: the lexicon lacks zebra, and is not of letters",
        ),
        ("", [], "talk.txt: has no words to align"),
        ("six", ["--nj=2"], "--nj: of no use with FILE"),
        ("six", ["--max-skipped=0"], "--max-skipped: of no use with FILE"),
        ("six", ["--allow-pipes"], "--allow-pipes: of no use with FILE"),
        ("six", ["--on=dev"], "give the utterances: --on SET or --data DIR, or FILE"),
    ],
)
def test_what_cannot_be_aligned_is_refused(
    text: str, options: list[str], message: str, run: Path, sound: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = sound.with_suffix(".txt")
    words.write_text(text)
    assert main(["align", str(run), str(sound), f"--text={words}", *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--segments=none", "--channel=0"])
@pytest.mark.parametrize("how", [["run", "--on=dev"], ["--flat", "--data=dev", "--lang=lang"]])
def test_what_is_of_a_file_is_refused_with_sets(
    option: str, how: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["align", *how, option, f"--out={tmp_path / 'out'}"]) == 1
    assert option.split("=")[0] in capsys.readouterr().err


def test_unknown_words_may_have_a_stand_in(run: Path, sound: Path, tmp_path: Path) -> None:
    words = sound.with_suffix(".txt")
    words.write_text("six zebra two two")
    text = ("--text", words, "--oov", "one")
    command("align", run, sound, *text, "--textgrid", tmp_path)
    tiers = read_textgrid(tmp_path / "talk.TextGrid")[1]
    assert [label for *_, label in tiers["words"]] == ["six", "zebra", "two", "two"]


def test_lines_are_kept_where_a_textgrid_cannot_be_made(
    run: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = TimedLabel("six", 0, 5, 1.0)
    parts = LongAlignment({0: label}, [label, label], [(0.0, 0.1)], 0.01)  # phones that overlap
    aligned = AlignedFile(sound, 0.1, 0.01, parts.to_timed(10), parts)
    monkeypatch.setattr(align, "align_file", lambda *_args, **_options: aligned)
    out = tmp_path / "out"
    text = f"--text={sound.with_suffix('.txt')}"
    with pytest.raises(errors.TextgridStateError):
        main(["align", str(run), str(sound), text, f"--textgrid={out}"])
    files = {"words.ctm", "phones.ctm", "lines.json", "segments", "text", "wav.scp"}
    assert files <= {path.name for path in out.iterdir()}


def test_lines_of_an_earlier_call_stay_where_no_words_come(
    run: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise InputError("the disk is full")

    monkeypatch.setattr(TimedFiles, "collect", fail)
    lines = tmp_path / "out/lines.json"
    lines.parent.mkdir()
    lines.touch()
    text = f"--text={sound.with_suffix('.txt')}"
    assert main(["align", str(run), str(sound), text, f"--out={lines.parent}"]) == 1
    assert lines.exists()


@pytest.mark.parametrize("found", [1, 2])
def test_a_long_file_of_which_few_words_are_said_is_doubted(
    found: int, run: Path, sound: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """However sure those are that are found."""
    words = {k: TimedLabel("six", 9 * k, 9 * k + 9, 1.0) for k in range(found)}
    parts = LongAlignment(words, [], [(0.0, 0.4)], 0.01)
    aligned = AlignedFile(sound, 0.4, 0.01, parts.to_timed(40), parts)
    monkeypatch.setattr(align, "align_file", lambda *_args, **_options: aligned)
    command("align", run, sound, "--text", sound.with_suffix(".txt"))
    said = "disagree: 1 of 4 words are in the sound" in capsys.readouterr().err
    assert said == (found == 1)


def test_results_of_another_recording_are_not_replaced(
    run: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(align, "align_file", lambda *_args, **_options: pytest.fail("aligned"))
    (tmp_path / "words.ctm").write_text(";; by hand\nhello 1 0.00 0.10 six 1.00\n")
    text = f"--text={sound.with_suffix('.txt')}"
    assert main(["align", str(run), str(sound), text, f"--out={tmp_path}"]) == 1
    assert "words.ctm: of hello, not of talk; name a folder for each" in capsys.readouterr().err


def test_textgrid_of_a_namesake_is_not_replaced(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Speakers have folders of their own, and files that are called alike."""
    text, grids = f"--text={sound.with_suffix('.txt')}", tmp_path / "grids"
    for _ in range(2):
        command("align", run, sound, text, "--textgrid", grids)
    written = (grids / "talk.TextGrid").read_bytes()
    namesake = tmp_path / "bert" / sound.name
    namesake.parent.mkdir()
    samples = speak(["six", "one"], np.random.default_rng(98)).samples
    namesake.write_bytes(riff(samples))
    given = ["align", str(run), str(namesake), text, f"--textgrid={grids}"]
    assert main(given) == 1
    said = f"and {namesake} {len(samples) / RATE:.3f} s: it may be of another recording"
    assert said in capsys.readouterr().err
    assert (grids / "talk.TextGrid").read_bytes() == written
    (grids / "talk.TextGrid").write_text("by hand, and no TextGrid")
    command(*given)


def test_data_directories_are_not_replaced_by_the_lines_of_a_long_file(
    run: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither where the sound lies there, nor elsewhere; a folder of such lines is, again."""
    data, names = tmp_path / "data", ("segments", "text", "utt2spk", "spk2utt", "wav.scp")
    data.mkdir()
    shutil.copy(sound, data)
    given = ["align", str(run), f"--text={sound.with_suffix('.txt')}", "--segments=network"]
    for name in names:
        (data / name).write_text("of the data")
        for file in (sound, data / "talk.wav"):
            assert main([*given, str(file), f"--out={data}"]) == 1
            assert f"{data}: holds {name}, which" in capsys.readouterr().err
        assert {path.name for path in data.iterdir()} == {"talk.wav", name}
        assert (data / name).read_text() == "of the data"
        (data / name).unlink()
    out = tmp_path / "out"
    for _ in range(2):
        command(*given, sound, "--out", out)
    assert {*names, "lines.json"} <= {path.name for path in out.iterdir()}
    for name in ("words.ctm", "phones.ctm", "confidence.txt"):
        (out / name).unlink()
    for segmenter in ("none", "network"):  # the lines are what is read
        text = [f"--text={out / 'text'}", f"--segments={segmenter}"]
        assert main(["align", str(run), str(sound), *text, f"--out={out}"]) == 1
    command(*given, sound, "--out", out, "--segments=none")
    assert {path.name for path in out.iterdir()} == {"words.ctm", "phones.ctm", "confidence.txt"}


@pytest.mark.parametrize("name", ["talk.TextGrid", "phones.ctm", "confidence.txt"])
@pytest.mark.parametrize("input_there", ["talk.wav", "talk.txt"])
def test_annotations_beside_sound_and_text_are_not_replaced(
    name: str, input_there: str, run: Path, sound: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(align, "align_file", lambda *_args, **_options: pytest.fail("aligned"))
    field = tmp_path / "field"
    field.mkdir()
    (field / name).write_text("by hand")
    shutil.move(tmp_path / input_there, field)
    places = [next(tmp_path.rglob(f"talk.{suffix}")) for suffix in ("wav", "txt")]
    given = [str(places[0]), f"--text={places[1]}", f"--textgrid={field}"]
    assert main(["align", str(run), *given]) == 1
    assert f"{field / name}: " in capsys.readouterr().err
    with pytest.raises(pytest.fail.Exception, match="aligned"):
        main(["align", str(run), *given, "--force"])


def test_praatio_is_missed_before_anything_is_aligned(
    run: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "praatio", None)
    monkeypatch.setattr(align, "align_file", lambda *_args, **_options: pytest.fail("aligned"))
    text = f"--text={sound.with_suffix('.txt')}"
    asked = ["align", str(run), str(sound), text, f"--textgrid={tmp_path}"]
    assert main(asked) == 1
    assert "praatio" in capsys.readouterr().err
