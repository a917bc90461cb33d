"""Scoring by time against hubscr: its stored results, and itself where it is installed."""

import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.glm import ENGLISH, read_glm
from bayes_asr.evaluate.score.nist import (
    Segment,
    TimedTokens,
    Word,
    assign_to_segments,
    filter_ctm,
    read_ctm,
    read_stm,
    score_segments,
)
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, pool, read_scores, write_scores

HUBSCR = Path("/usr/lib/sctk/bin/hubscr.pl")
STM = "rec A bob 0.0 1.0 <O,M> HELLO (UM) THERE\nrec A bob 1.0 2.5 OKAY\nrec B ann 0 1 {YES / NO}\n"
CTM = "rec A 0.1 0.2 hello 0.9\nrec A 1.1 0.3 okay\n;; comment\nrec B 0.1 0.1 no 1\n"


def score(stm: Path, ctm: Path, glm: Path | None) -> list[UtteranceScore]:
    rules = (read_glm(glm, "ref"), read_glm(glm, "hyp")) if glm else (None, None)
    return score_segments(read_stm(stm), read_ctm(ctm), ctm, *rules)


def by_speaker(utterances: list[UtteranceScore]) -> dict[str, ErrorCounts]:
    speakers = dict.fromkeys(u.speaker.lower() for u in utterances)
    return {
        s: pool(u.counts for u in utterances if u.speaker.lower() == s) for s in sorted(speakers)
    }


def raw_counts(raw: Path) -> dict[str, list[int]]:
    """Words, correct, substituted, deleted, inserted of each speaker in sclite's .raw."""
    rows = re.findall(r"^ *\| (\S+) +\|" + r"[ |]+(\d+)" * 7, raw.read_text(), re.MULTILINE)
    return {row[0]: [int(n) for n in row[2:7]] for row in rows if row[0] not in ("Sum", "Mean")}


def as_sclite(counts: ErrorCounts) -> list[int]:
    c = counts
    correct = c.tokens - c.substitutions - c.deletions
    return [c.tokens, correct, c.substitutions, c.deletions, c.insertions]


@pytest.mark.parametrize("convention", ["strict", "forgiving"])
@pytest.mark.parametrize("name", ["small", "dev"])
def test_timit_equals_hubscr(golden: Path, name: str, convention: str) -> None:
    hub = golden / "timit_hub"
    utterances = score(hub / f"{name}.{convention}.stm", hub / f"{name}.ctm", hub / "glm")
    expected = raw_counts(hub / f"{name}.{convention}.raw")
    assert {s: as_sclite(c) for s, c in by_speaker(utterances).items()} == expected


def test_forgiving_silence_equals_parentheses_in_the_stm(golden: Path) -> None:
    hub = golden / "timit_hub"
    segments, words = read_stm(hub / "dev.strict.stm"), read_ctm(hub / "dev.ctm")
    forgiven = score_segments(segments, words, "dev.ctm", optional=frozenset({"sil"}))
    marked = score(hub / "dev.forgiving.stm", hub / "dev.ctm", None)
    assert [u.counts for u in forgiven] == [u.counts for u in marked]


@pytest.mark.parametrize("own_rules", [False, True])
def test_ami_equals_hubscr(golden: Path, own_rules: bool) -> None:
    ami = golden / "ami"
    rules = ENGLISH if own_rules else ami / "english.glm"
    utterances = score(ami / "stm", ami / "eval.ctm", rules)
    expected = raw_counts(ami / "eval.ctm.filt.raw")
    assert len(expected) == 4
    assert {s: as_sclite(c) for s, c in by_speaker(utterances).items()} == expected


def test_ami_is_filtered_as_csrfilt_does(golden: Path) -> None:
    ami = golden / "ami"
    filtered = filter_ctm(read_ctm(ami / "eval.ctm"), read_glm(ami / "english.glm", "hyp"))
    expected = [line.split() for line in (ami / "eval.ctm.filt").read_text().splitlines()]
    assert [t.tokens[0] for t in filtered] == [fields[4].lower() for fields in expected]
    middles = [float(fields[2]) + float(fields[3]) / 2 for fields in expected]
    assert [t.middle for t in filtered] == pytest.approx(middles, abs=1e-9)


def random_recordings(seed: int) -> tuple[str, str]:
    """An STM and a CTM with everything that the rules know, and errors."""
    rng = random.Random(seed)
    rules = [r for found in read_glm(ENGLISH, "hyp").rules.values() for r in found]
    mapped = [r.source for r in rules if r.target.strip() and not r.source.startswith("%")]
    plain = str.split(
        "the a cat is on mat ok kick-off t. v. up-to-date hello- -ing it's don't cat* cat** *"
    )
    stm = [f';; LABEL "{label}" "{label}" "{label}"' for label in "OFM"]
    ctm = []
    for channel in (f"rec{i} {side}" for i in range(4) for side in "AB"):
        time = 0.0
        for _ in range(rng.randint(1, 9)):
            begin = time + rng.choice([0, 0, 0.5, 2])
            time = round(begin + rng.uniform(0.3, 6), 2)
            said: list[str] = []
            for _ in range(rng.randint(0, 8)):
                word = rng.choice([rng.choice(plain), rng.choice(mapped)])
                marks = (
                    ["{}", "{}", "{}", "{}", "{}"] if word in mapped else ["{}", "({})", "(a {})"]
                )
                said.append(rng.choice(marks).format(word))
            if rng.random() < 0.2:
                said.append("{ cat / on mat / @ }")
            label = rng.choice(["<O,M> ", "<O,F> ", ""])
            text = " ".join(said) if rng.random() < 0.95 else "IGNORE_TIME_SEGMENT_IN_SCORING"
            speaker = f"{'spk' if channel.endswith('A') else 'Spk'}{rng.randint(0, 3)}"
            stm.append(f"{channel} {speaker} {begin:.2f} {time} {label}{text}")
            heard = [
                w for w in re.sub(r"[(){}/@]", " ", " ".join(said)).split() if rng.random() < 0.9
            ]
            heard = [w if rng.random() < 0.8 else rng.choice(plain + mapped) for w in heard]
            for at in sorted(rng.uniform(max(0, begin - 0.2), time + 0.2) for _ in heard):
                ctm.append(f"{channel} {at:.2f} {rng.uniform(0.02, 0.5):.2f} {heard.pop()} 0.5")
        ctm.append(f"{channel} {time:.2f} 0.10 cat 0.50")
    rng.shuffle(ctm)
    return "\n".join(stm) + "\n", "\n".join(ctm) + "\n"


def hubscr(folder: Path) -> dict[str, list[int]]:
    """What hubscr counts in each segment of `folder`: correct, substituted, deleted, inserted."""
    if not HUBSCR.exists() or not shutil.which("perl"):
        pytest.skip("hubscr is not installed (Debian package sctk)")
    command = f"perl {HUBSCR} -p {HUBSCR.parent} -V -l english -h hub5 -g {ENGLISH} -r stm ctm"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    blocks = (folder / "ctm.filt.pra").read_text().split("\nid: ")[1:]
    found = (re.search(r"^\((\S+)\)\n(?:.*\n)*?Scores: \(#C #S #D #I\) (.*)", b) for b in blocks)
    return {m[1]: [int(n) for n in m[2].split()] for m in found if m}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_recordings_equal_hubscr(tmp_path: Path, seed: int) -> None:
    stm, ctm = random_recordings(seed)
    (tmp_path / "stm").write_text(stm)
    (tmp_path / "ctm").write_text(ctm)
    expected = hubscr(tmp_path)
    utterances = score(tmp_path / "stm", tmp_path / "ctm", ENGLISH)
    assert {u.utterance.lower(): as_sclite(u.counts)[1:] for u in utterances} == expected
    assert len({u.speaker for u in utterances}) == len({u.speaker.lower() for u in utterances})


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "stm").write_text(STM)
    (tmp_path / "ctm").write_text(CTM)
    return tmp_path / "stm", tmp_path / "ctm"


def test_utterances_are_named_by_speaker_and_order(pair: tuple[Path, Path]) -> None:
    utterances = score(*pair, ENGLISH)
    assert [u.utterance for u in utterances] == ["bob-000", "bob-001", "ann-000"]
    assert [u.counts.errors for u in utterances] == [1, 0, 0]
    assert utterances[2].reference == ("{", "yes", "/", "no", "}")


def test_speakers_that_differ_by_case_are_one(pair: tuple[Path, Path]) -> None:
    pair[0].write_text(STM.replace(" bob ", " BOB ", 1))
    assert [u.utterance for u in score(*pair, ENGLISH)] == ["BOB-000", "BOB-001", "ann-000"]


def test_what_is_written_of_alternations_is_read_again(tmp_path: Path) -> None:
    """Without the null alternative, three substitutions cost what four other errors do."""
    word = [Word(("r", "A"), begin, 0.1, text) for begin, text in enumerate(("ab", "b", "abc"))]
    segment = Segment(("r", "A"), "s", 0.0, 9.0, "abc a ab { uh / @ }")
    scored = score_segments([segment], word, "ctm")
    made = Score("dev", "wer", "plain", frozenset(), "sclite", 4.0, 0.0, scored, glm="english")
    write_scores([made], tmp_path / "score_dev.json")
    (read,) = read_scores(tmp_path / "score_dev.json")
    assert read.counts == made.counts


def test_words_go_to_the_segment_that_ends_after_their_middle() -> None:
    segments = [Segment(("r", "A"), "s", b, e, "") for b, e in ((0, 1), (2, 3), (3, 4))]
    words = [TimedTokens(("r", "A"), m, (f"w{m:g}",)) for m in (0.5, 1, 1.5, 2.9, 3, 9)]
    assert assign_to_segments(segments, words) == [["w0.5"], ["w1", "w1.5", "w2.9"], ["w3", "w9"]]


def test_channels_are_compared_without_case(pair: tuple[Path, Path]) -> None:
    pair[1].write_text("REC a 0.1 0.2 hello\nrec A 0.4 0.2 there\nrec a 1.1 0.3 okay\nRec b 0 1 no")
    utterances = score(*pair, None)
    assert [u.counts.errors for u in utterances] == [0, 0, 0]
    assert [u.hypothesis for u in utterances] == [("hello", "there"), ("okay",), ("no",)]


def test_tags_of_words_are_no_part_of_them(pair: tuple[Path, Path]) -> None:
    """Tags as in NIST's test1 (lvc_hyp.ctm), whose counts by speaker are those of its .raw."""
    pair[0].write_text("rec A bob 0 9 a\\;s far;x semi\\;\n")
    pair[1].write_text("rec A 0 1 A\\;S;tag1\nrec A 1 1 FAR;;tag2\nrec A 2 1 semi\\;\n")
    (utterance,) = score(*pair, None)
    assert utterance.reference == utterance.hypothesis == ("a;s", "far", "semi;")


def test_alternations_of_a_ctm(pair: tuple[Path, Path]) -> None:
    alternation = ["* * <ALT_BEGIN>", "0.5 0.2 hey", "0.9 0.4 you", "* * <ALT>", "0.6 0.2 okay"]
    lines = ["0.1 0.2 hello", "0.3 0.1 there", *alternation, "* * <ALT_END>"]
    pair[1].write_text("".join(f"rec A {line}\n" for line in lines) + "rec B 0 1 no\n")
    utterances = score(*pair, None)
    # The latest word has its middle at 1.1 s, in the second segment.
    assert [u.counts.errors for u in utterances] == [0, 0, 0]
    assert utterances[1].hypothesis == ("{", "hey", "you", "/", "okay", "}")


def test_words_of_all_types_count_and_are_announced(
    pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    pair[1].write_text("rec A 0.1 0.2 hello 1 lex bob\nrec A 0.4 0.2 uh NA fp bob\n")
    with caplog.at_level("WARNING"):
        assert score(*pair, None)[0].hypothesis == ("hello", "uh")
    assert "words of all types count, as under sclite (1 fp, 1 lex)" in caplog.text


def test_silent_channel_is_all_deletions(pair: tuple[Path, Path]) -> None:
    pair[1].write_text("rec A 0.1 0.2 hello\n")
    assert [u.counts.deletions for u in score(*pair, None)] == [1, 1, 1]


def test_alternation_stands_at_its_latest_word(tmp_path: Path) -> None:
    word = Word(("r", "A"), 1.0, 0.4, "can't")
    (timed,) = filter_ctm([word], read_glm(ENGLISH, "hyp"))
    assert timed.tokens == ("{", "can", "not", "/", "cannot", "}")
    assert timed.middle == pytest.approx(1.3)


def test_words_that_rules_delete_are_gone() -> None:
    assert filter_ctm([Word(("r", "A"), 1.0, 0.4, "UM")], read_glm(ENGLISH, "hyp")) == []


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("stm", "rec A bob 0.0", "line 1: 4 fields, an STM has 5 or more"),
        ("stm", "rec A bob x 1.0 A", "line 1: 'x' is not a time in seconds"),
        ("stm", "rec A bob 2 1 A", "line 1: a segment from 2.0 to 1.0 s"),
        ("stm", "rec A bob 0 1 a\nrec A bob 1 2 b\nrec A bob 0 1 a", "line 3: is line 1 again"),
        ("ctm", "rec A 0.1 0.2", "line 1: 4 fields, a CTM has 5 to 8"),
        ("ctm", "rec A * * <ALT>", "line 1: <ALT> where none is due"),
        ("ctm", "rec A * * <ALT_BEGIN>\nrec A * * <ALT_BEGIN>", "line 2: <ALT_BEGIN> where none"),
        ("ctm", "rec A * * <ALT_BEGIN>\nrec A 0 1 a", "the last <ALT_BEGIN> has no <ALT_END>"),
        ("ctm", "rec A * * <ALT_BEGIN>\nrec A * * <ALT_END>", "line 2: an alternation holds words"),
        ("ctm", "rec A * 1 a", "line 1: '*' is not a time in seconds"),
        ("ctm", "rec A 0.1 inf a", "line 1: 'inf' is not a time in seconds"),
        ("ctm", "rec A 0_1 0.2 a", "line 1: '0_1' is not a time in seconds"),
        ("ctm", "rec A 0.1 1e300 a", "line 1: '1e300' is not a time in seconds"),
        ("ctm", "rec A 0.1 -0.2 a", "line 1: a lasts -0.2 s"),
        ("ctm", "rec A 0.1 0.2 new york", "line 1: 'york' stands where a confidence does"),
        ("ctm", "rec C 0.1 0.2 a", "1 words in recording rec, channel C, which has no reference"),
        ("stm", "rec A bob 0 1 { a / b\nrec B a 0 1 x", "segment bob-000: an alternation does not"),
        ("stm", "rec A bob 0 1 a } b\nrec B a 0 1 x", "segment bob-000: braces do not match"),
    ],
)
def test_bad_lines_are_named(pair: tuple[Path, Path], name: str, line: str, message: str) -> None:
    files = dict(zip(("stm", "ctm"), pair, strict=True))
    files[name].write_text(line + "\n")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        score(*pair, None)
    assert str(caught.value).startswith(tuple(str(path) for path in pair))


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        (("<unk> a", "b", "<noise>"), ["<noise>", "<unk>"]),
        (("<unk> a", "<> <noise> b"), []),
        (("<O> a", "<O> b", "IGNORE_TIME_SEGMENT_IN_SCORING"), []),
        (("<o,f0> a", "b"), []),
    ],
)
def test_a_first_word_that_is_taken_for_a_label_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: Sequence[str], taken: list[str]
) -> None:
    """Words are those of sclite: test_sctk.py; qcri/ArabicASRChallenge2016 #8."""
    stm = tmp_path / "ref.stm"
    rows = (f"rec A bob {i} {i + 1} {line}\n" for i, line in enumerate(lines))
    stm.write_text("".join(rows))
    read_stm(stm)
    said = [message for message in caplog.messages if "taken for a label" in message]
    assert len(said) == bool(taken)
    assert all(f"{len(taken)} lines" in line and ", ".join(taken) in line for line in said)


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """A few bytes changed, cut out or doubled."""
    for _ in range(rng.integers(1, 4)):
        at, length = rng.integers(0, len(content) + 1), rng.integers(0, 12)
        junk = rng.choice([b"", b"\xff", b"{", b"/ ", b"}", b"(", b"\n", b"nan ", b"=>", b"\0"])
        content = content[:at] + bytes(junk) + content[at + length :]
    return content


def fuzzed_files(folder: Path, contents: Mapping[str, bytes], seed: int) -> list[Path]:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(contents))
    for i, (name, content) in enumerate(contents.items()):
        (folder / name).write_bytes(damaged(rng, content) if i == chosen else content)
    return [folder / name for name in contents]


@pytest.mark.slow
def test_damaged_files_give_one_error_that_names_one(tmp_path: Path) -> None:
    rules = b"\n".join(ENGLISH.read_bytes().splitlines()[:40]) + b"\n"
    contents = {"stm": STM.encode(), "ctm": CTM.encode(), "glm": rules}
    refused = []
    for seed in range(3000):
        paths = fuzzed_files(tmp_path, contents, seed)
        try:
            assert score(*paths)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 300
    named = re.compile(rf"{re.escape(str(tmp_path))}/(stm|ctm|glm)\b.*")
    assert [message for message in refused if not named.fullmatch(message)] == []
