"""The command `wer` against Kaldi's own figure and against hubscr's, in both conventions."""

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import wer


@pytest.fixture
def run_wer(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*argv: str | Path) -> str:
        parser = argparse.ArgumentParser()
        wer.add_arguments(parser)
        wer.run(parser.parse_args([str(arg) for arg in argv]))
        return capsys.readouterr().out

    return run


@pytest.fixture
def pair(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "ref").write_text("u1 sil dh ah sil k ae t sil\nu2 sil sh iy sil ih z sil\n")
    (tmp_path / "hyp").write_text("u1 sil dh ah k ae d sil\nu2 sil sh iy ih z sil\n")
    (tmp_path / "utt2spk").write_text("u1 mabc0\nu2 fabc0\n")
    return ["--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp"]


def test_both_conventions_equal_hubscr(run_wer: Callable[..., str], pair: list[str]) -> None:
    strict, forgiving = run_wer(*pair, "--forgive", "sil").splitlines()
    assert strict == "%PER 20.00 [ 3 / 15, 0 ins, 2 del, 1 sub ] PER (strict)"
    assert forgiving == "%PER 6.67 [ 1 / 15, 0 ins, 0 del, 1 sub ] PER (forgiving)"


def test_json_has_the_keys_of_a_score_file(run_wer: Callable[..., str], pair: list[str]) -> None:
    entry = json.loads(run_wer(*pair, "--map", "timit", "--to", "39", "--json"))
    assert (entry["set"], entry["metric"], entry["convention"]) == (None, "per", "strict")
    assert (entry["errors"], entry["tokens"], entry["rate"]) == (3, 15, 20.0)
    assert [u["deletions"] for u in entry["utterances"]] == [1, 1]


def test_speakers(run_wer: Callable[..., str], pair: list[str | Path], tmp_path: Path) -> None:
    by = ["--by", "speaker", "--utt2spk", tmp_path / "utt2spk"]
    lines = run_wer(*pair, *by).splitlines()
    assert lines[1:] == [
        "%WER 25.00 [ 2 / 8, 0 ins, 1 del, 1 sub ] mabc0",
        "%WER 14.29 [ 1 / 7, 0 ins, 1 del, 0 sub ] fabc0",
    ]
    speakers = json.loads(run_wer(*pair, *by, "--json"))["speakers"]
    assert [(s["speaker"], s["errors"]) for s in speakers] == [("mabc0", 2), ("fabc0", 1)]


def test_without_a_reference_word_there_is_no_rate(
    run_wer: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text("u1\n")
    (tmp_path / "hyp").write_text("u1 uh\n")
    files = "--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp"
    entry = json.loads(run_wer(*files, "--json"))
    assert (entry["rate"], entry["insertions"], entry["tokens"]) == (None, 1, 0)
    assert run_wer(*files).startswith("%WER nan [ 1 / 0, 1 ins")


def test_by_speaker_needs_the_speakers(run_wer: Callable[..., str], pair: list[str]) -> None:
    with pytest.raises(InputError, match="needs --utt2spk"):
        run_wer(*pair, "--by", "speaker")


def test_utterances_without_a_speaker_are_refused(
    run_wer: Callable[..., str], pair: list[str | Path], tmp_path: Path
) -> None:
    (tmp_path / "utt2spk").write_text("u1 mabc0\n")
    with pytest.raises(InputError, match="utt2spk: lacks 1 of 2 utterances, u2; complete it"):
        run_wer(*pair, "--by", "speaker", "--utt2spk", tmp_path / "utt2spk")


def test_costs_make_a_difference(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("u b b b c c\n")
    (tmp_path / "hyp").write_text("u c c a a b\n")
    pair = ["--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp"]
    assert run_wer(*pair).startswith("%WER 120.00 [ 6 / 5, 3 ins, 3 del, 0 sub ] WER (plain)")
    assert run_wer(*pair, "--costs", "levenshtein").startswith("%WER 100.00 [ 5 / 5, 0 ins")


def test_transcripts_of_sclite_are_no_kaldi_text(
    run_wer: Callable[..., str], tmp_path: Path
) -> None:
    """usnistgov/SCTK #47: a word for each name, and the words behind it, would be counted."""
    (tmp_path / "trn").write_text("hello world (spk1-001)\nhello you (spk1-002)\n")
    with pytest.raises(InputError, match=r"trn: each line ends with its utterance, \(spk1-001\)"):
        run_wer("--ref", tmp_path / "trn", "--hyp", tmp_path / "trn")
    remedy = r"s/^(.*)\(([^()]*)\)\s*$/\2 \1/"
    command = ["sed", "-E", remedy, tmp_path / "trn"]
    (tmp_path / "text").write_bytes(subprocess.check_output(command))
    assert "[ 0 / 4," in run_wer("--ref", tmp_path / "text", "--hyp", tmp_path / "text")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("SPEAKER f 1 0.0 1.2 <NA> <NA> spk1 <NA> <NA>", "an RTTM"),
        ("f 1 spk1 0 1.2 <O,F> hello you", "an STM"),
        (";; of a decoder\nf A 0 0.3 hello 0.9\nf A 0.4 1 you", "a CTM"),
        ("f 1 s 0 3 hello you\ng 1 t 0 20", "an STM"),
        ("f A 0 1 hello\ng A 0 2 you 1", "a CTM"),
        ("u1 0.0 1.5 hello you\nu2 1.5 2 hello", "a text with times"),
    ],
)
def test_words_with_times_are_no_kaldi_text(
    line: str, name: str, run_wer: Callable[..., str], tmp_path: Path, pair: list[str]
) -> None:
    (tmp_path / "timed").write_text(f"{line}\n")
    for files in (
        [*pair[:2], "--hyp", tmp_path / "timed"],
        ["--ref", tmp_path / "timed", *pair[2:]],
    ):
        with pytest.raises(InputError, match=f"timed: each line is of {name}, not of a text"):
            run_wer(*files)


@pytest.mark.parametrize(
    "lines",
    [
        "u1,a b\nu2,c",
        "utt;text\nu1;a b",
        "u1|a b|A B\nu2|c|C",
        '"u1","a b"',
        '{"u1": "a b"}',
        '{\n"u1": "a b",\n"u2": "c"\n}',
        '[\n {"utt": "u1", "text": "a b"}\n]',
    ],
)
def test_tables_of_cells_are_no_kaldi_text(
    run_wer: Callable[..., str], tmp_path: Path, lines: str
) -> None:
    """The first word of each line would be a part of its name."""
    path = tmp_path / "text"
    path.write_text(f"{lines}\n")
    with pytest.raises(InputError, match=r"text: .* is no name, but a cell of a table or JSON"):
        run_wer("--ref", str(path), "--hyp", str(path))
    path.write_text(f"{lines}\nu3 a b\n")
    run_wer("--ref", str(path), "--hyp", str(path))


def test_digits_are_words(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("u1 1 2 3 4 5\nu2 1 2 3 4 0\n")
    assert "[ 0 / 10," in run_wer("--ref", tmp_path / "text", "--hyp", tmp_path / "text")


@pytest.mark.parametrize("name", ["text", "a.stm"])
def test_nothing_to_count_against_is_refused(
    name: str, run_wer: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=f"{name}: there is nothing in it to count against"):
        run_wer("--ref", tmp_path / name, "--hyp", tmp_path / name)


def test_words_in_brackets_may_end_lines(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("u1 yes (laughter)\nu2 no (cough)\n")
    assert "[ 0 / 4," in run_wer("--ref", tmp_path / "text", "--hyp", tmp_path / "text")


def test_a_line_of_sclite_without_its_utterance_is_named(
    run_wer: Callable[..., str], tmp_path: Path, pair: list[str]
) -> None:
    (tmp_path / "trn").write_text("yes (anna-1)\nno\nno no (anna-3)\n")
    with pytest.raises(InputError, match=r"2 of 3 lines, but not line 2, end with their utteranc"):
        run_wer("--ref", tmp_path / "trn", *pair[2:])


def test_names_of_the_other_side_are_shown(
    run_wer: Callable[..., str], tmp_path: Path, pair: list[str]
) -> None:
    (tmp_path / "hyp").write_text("U1 a\nU2 b\n")
    with pytest.raises(InputError, match=r"no hypothesis: .*; the other side has U1, U2 instead"):
        run_wer(*pair[:2], "--hyp", tmp_path / "hyp")


def test_words_of_another_case_are_announced(
    run_wer: Callable[..., str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SeanNaren/deepspeech.pytorch #332."""
    (tmp_path / "ref").write_text("u1 hello World El el\n")
    (tmp_path / "hyp").write_text("u1 HELLO World, el El\n")
    run_wer("--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp")
    remark = "2 words differ by case or punctuation alone, which is an error: HELLO, World,; write"
    assert remark in caplog.text


def test_words_of_an_stm_that_differ_by_case_are_announced_where_they_count(
    run_wer: Callable[..., str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under sclite letters beyond ASCII differ by case."""
    (tmp_path / "stm").write_text("r A ann 0 1 ÉLAN Vital\n", encoding="utf-8")
    (tmp_path / "ctm").write_text("r A 0.1 0.1 élan\nr A 0.4 0.2 vital\n", encoding="utf-8")
    out = run_wer("--ref", tmp_path / "stm", "--hyp", tmp_path / "ctm")
    assert out.startswith("%WER 50.00 [ 1 / 2, 0 ins, 0 del, 1 sub ]")
    assert "1 word differs by case or punctuation alone, which is an error: élan" in caplog.text


@pytest.mark.parametrize("phones", [[], ["--forgive", "c"]])
def test_alternatives_of_sclite_in_a_text_are_announced(
    run_wer: Callable[..., str], tmp_path: Path, caplog: pytest.LogCaptureFixture, phones: list[str]
) -> None:
    (tmp_path / "ref").write_text("u1 { a\nu2 say { a / b }\nu3 c\nu4 { d / e } f\n")
    (tmp_path / "hyp").write_text("u1 { a\nu2 say a\nu3 c\nu4 d f\n")
    run_wer("--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp", *phones)
    (remark,) = (r.getMessage() for r in caplog.records)
    assert remark.startswith(f"{tmp_path}/ref, line 2: {{, / and }} are words here, as in 2 lines;")


def test_words_of_an_stm_that_look_alike_are_announced(
    run_wer: Callable[..., str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "stm").write_text("r A bob 0 1 DON'T WAIT\n")
    (tmp_path / "ctm").write_text("r A 0.1 0.1 don\u2019t\nr A 0.4 0.2 wait\n", encoding="utf-8")
    run_wer("--ref", tmp_path / "stm", "--hyp", tmp_path / "ctm")
    assert "1 word may look alike and count as errors: don\u2019t looks like don't" in caplog.text


@pytest.fixture
def meeting(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "stm").write_text("r A bob 0 1 HELLO UM OKAY\nr A ann 1 2 IT'S\n")
    (tmp_path / "ctm").write_text("r A 0.1 0.1 hello\nr A 0.4 0.2 okay\nr A 1.3 0.1 <unk>\n")
    return ["--ref", tmp_path / "stm", "--hyp", tmp_path / "ctm"]


def test_stm_is_scored_by_time(run_wer: Callable[..., str], meeting: list[str]) -> None:
    lines = run_wer(*meeting, "--glm", "english", "--by", "speaker").splitlines()
    assert lines == [
        "%WER 25.00 [ 1 / 4, 0 ins, 0 del, 1 sub ] WER (plain)",
        "%WER 0.00 [ 0 / 3, 0 ins, 0 del, 0 sub ] bob",
        "%WER 100.00 [ 1 / 1, 0 ins, 0 del, 1 sub ] ann",
    ]
    assert run_wer(*meeting).startswith("%WER 50.00 [ 2 / 4, 0 ins, 1 del, 1 sub ]")


def test_dropped_words_do_not_count(run_wer: Callable[..., str], meeting: list[str]) -> None:
    dropped = run_wer(*meeting, "--glm", "english", "--drop", "<UNK>")
    assert dropped.startswith("%WER 25.00 [ 1 / 4, 0 ins, 1 del, 0 sub ]")


def test_options_that_name_no_word_of_their_side_are_announced(
    run_wer: Callable[..., str],
    pair: list[str],
    meeting: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_wer(*pair, "--drop", "ae", "--drop", "SIL", "--forgive", "sil", "--forgive", "spn")
    run_wer(*meeting, "--glm", "english", "--drop", "<UNK>", "--drop", "um", "--forgive", "hello")
    assert [record.getMessage() for record in caplog.records] == [
        f"--drop SIL: not among the words of {pair[3]} as they are scored; it changes nothing",
        f"--forgive spn: not among the words of {pair[1]} as they are scored; it changes nothing",
        f"--drop um: not among the words of {meeting[3]} as they are scored; it changes nothing",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--costs", "levenshtein"], "scored with the costs of sclite"),
        (["--glm", "nowhere"], "nowhere: No such file"),
    ],
)
def test_stm_with_impossible_options(
    run_wer: Callable[..., str], meeting: list[str], options: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run_wer(*meeting, *options)


def test_rules_need_an_stm(run_wer: Callable[..., str], pair: list[str]) -> None:
    with pytest.raises(InputError, match="--glm is for an stm"):
        run_wer(*pair, "--glm", "english")


def test_phones_of_an_stm_are_folded(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "a.stm").write_text("u 1 s 0 1 (sil) ix zh q\n")
    (tmp_path / "ctm").write_text("u 1 0.1 0.1 ih\nu 1 0.3 0.1 sh\n")
    files = ["--ref", tmp_path / "a.stm", "--hyp", tmp_path / "ctm", "--map", "timit"]
    assert "[ 0 / 3," in run_wer(*files)


def test_speaker_who_says_nothing_has_no_rate(run_wer: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "stm").write_text("u 1 s 0 1\nu 1 t 1 2 a\n")
    (tmp_path / "ctm").write_text("u 1 0.1 0.1 a\nu 1 1.3 0.1 a\n")
    files = ["--ref", tmp_path / "stm", "--hyp", tmp_path / "ctm", "--by", "speaker"]
    assert "%WER nan [ 1 / 0, 1 ins" in run_wer(*files)
    assert [s["rate"] for s in json.loads(run_wer(*files, "--json"))["speakers"]] == [None, 0]


# --- files that give their content once


def test_a_ctm_from_a_pipe_counts_in_both_conventions(
    run_wer: Callable[..., str], meeting: list[str | Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A second reading of a pipe would find no words, and call all of them deleted."""
    ctm = Path(meeting[3])
    ctm.write_text("".join(f"{line} 0.9 fp\n" for line in ctm.read_text().splitlines()))
    expected = run_wer(*meeting, "--forgive", "sil")
    remarks = [record.message for record in caplog.records]
    assert len(remarks) == len({*remarks})  # what is wrong with a file is said once
    with subprocess.Popen(["cat", ctm], stdout=subprocess.PIPE) as cat:
        assert cat.stdout
        pipe = f"/dev/fd/{cat.stdout.fileno()}"
        assert run_wer(*meeting[:3], pipe, "--forgive", "sil") == expected


@pytest.mark.parametrize("option", ["--ref", "--hyp", "--glm"])
def test_a_pipe_is_refused_where_a_file_is_read_twice(
    option: str, run_wer: Callable[..., str], pair: list[str | Path], meeting: list[str | Path]
) -> None:
    with subprocess.Popen(["echo", "u1 a"], stdout=subprocess.PIPE) as echo:
        assert echo.stdout
        pipe = f"/dev/fd/{echo.stdout.fileno()}"
        with pytest.raises(InputError, match=f"{pipe}: is a pipe"):
            run_wer(*(meeting if option == "--glm" else pair), option, pipe)
