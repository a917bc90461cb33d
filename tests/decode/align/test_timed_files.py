"""TextGrids and CTMs of alignments: three readers see the frames of the alignment."""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.data.sound.audio import Channel
from bayes_asr.decode.align.best_path import Alignment
from bayes_asr.decode.align.textgrid import TextGrids, TimedAlignment
from bayes_asr.decode.align.timed_files import TimedFiles
from bayes_asr.decode.align_files import AlignedFile
from bayes_asr.decode.lattices.ctm import Place, TimedLabel, read_places
from tests.support.textgrids import read_textgrid

praatio = pytest.importorskip("praatio.textgrid")
LABELS = st.text(st.characters(categories=["L", "M", "N", "P", "S"]), min_size=1, max_size=6)
Timed = list[tuple[float, float, str]]


@st.composite
def alignments(draw: st.DrawFn) -> TimedAlignment:
    """Phones without gaps, and words with gaps between them, some of one frame."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=12))
    edges = np.cumsum([0, *lengths]).tolist()
    phones = [TimedLabel(draw(LABELS), *span, 0.5) for span in itertools.pairwise(edges)]
    words = [TimedLabel(draw(LABELS), p.start, p.end, 0.25) for p in phones if draw(st.booleans())]
    return TimedAlignment(Alignment(np.zeros(edges[-1], np.int32), 0.0, False), words, phones, 0.5)


def in_seconds(labels: Sequence[TimedLabel], begin: float, shift: float) -> Timed:
    return [(begin + shift * x.start, begin + shift * x.end, x.label) for x in labels]


def check(tier: Timed, expected: Timed) -> None:
    """The same labels, and begins and ends that are those frames and no other number."""
    assert [label for *_, label in tier] == [label for *_, label in expected]
    times = np.array([span for *span, _ in tier]).reshape(-1, 2)
    np.testing.assert_allclose(
        times, np.array([span for *span, _ in expected]).reshape(-1, 2), atol=1e-6
    )


def by_praatio(path: Path) -> dict[str, Timed]:
    grid = praatio.openTextgrid(str(path), includeEmptyIntervals=False)
    return {tier.name: [(e.start, e.end, e.label) for e in tier.entries] for tier in grid.tiers}


def by_tgt(path: Path) -> dict[str, Timed]:
    tgt = pytest.importorskip("tgt")
    grid = tgt.read_textgrid(str(path), encoding="utf-8")
    return {
        tier.name: [(x.start_time, x.end_time, x.text) for x in tier.intervals]
        for tier in grid.tiers
    }


@settings(max_examples=40, deadline=None)
@given(alignments(), st.sampled_from([0.01, 0.03]), st.floats(0, 0.03))
def test_readers_see_the_frames(
    tmp_path_factory: pytest.TempPathFactory, timed: TimedAlignment, shift: float, more: float
) -> None:
    out = tmp_path_factory.mktemp("grids")
    frames = len(timed.alignment.transition_ids)
    grids = TextGrids(out, shift, seconds={"u": frames * shift + more})
    grids.add("u", timed)
    grids.finish()
    end, tiers = read_textgrid(out / "u.TextGrid")
    assert end == pytest.approx(frames * shift + more)
    for tier in (tiers, by_praatio(out / "u.TextGrid")):
        check(tier["phones"], in_seconds(timed.phones, 0.0, shift))
        check(tier["words"], in_seconds(timed.words, 0.0, shift))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("sil|a_B b_I a_E|sil|t_S_S", "sil|a b a|sil|t_S"),
        ("sil|t_S b|sil|a_B", "sil|t_S b|sil|a_B"),  # t_S is a phone of X-SAMPA
    ],
)
def test_phones_are_without_their_places_in_words(said: str, shown: str, tmp_path: Path) -> None:
    """In TextGrids and JSON; phones.ctm has Kaldi's names."""
    parts = [part.split() for part in said.split("|")]
    names = [name for part in parts for name in part]
    phones = [TimedLabel(name, i, i + 1, 1.0) for i, name in enumerate(names)]
    words, begin = [], 0
    for part in parts:
        if part != ["sil"]:
            words.append(TimedLabel("w", begin, begin + len(part), 1.0))
        begin += len(part)
    alignment = Alignment(np.zeros(len(phones), np.int32), 0.0, False)
    aligned = AlignedFile(Path("u.wav"), 1.0, 0.01, TimedAlignment(alignment, words, phones, 1.0))
    aligned.write(tmp_path, tmp_path)
    expected = shown.replace("|", " ").split()
    assert [label for *_, label in read_textgrid(tmp_path / "u.TextGrid")[1]["phones"]] == expected
    assert [phone["label"] for phone in aligned.describe()["phones"]] == expected
    lines = (tmp_path / "phones.ctm").read_text().splitlines()
    assert [line.split()[4] for line in lines] == names


@pytest.mark.parametrize(("seconds", "end"), [(0.2975, 0.2975), (0.29, 0.3), (0.31, 0.31)])
def test_a_last_frame_ends_with_the_sound(seconds: float, end: float, tmp_path: Path) -> None:
    grids = TextGrids(tmp_path, 0.01, seconds={"u": seconds})
    grids.add("u", make("a", "b", "c"))
    grids.finish()
    last, tiers = read_textgrid(tmp_path / "u.TextGrid")
    assert last == end
    assert tiers["words"][-1] == (0.2, min(end, 0.3), "c")


@pytest.mark.parametrize("frames", [8, 30, 1608])
def test_a_last_frame_has_room_where_durations_are_cut(frames: int, tmp_path: Path) -> None:
    """A whole frame short, as utt2dur of two decimals: the label of that frame stays."""
    spans = [TimedLabel("a", 0, frames - 1, 0.5), TimedLabel("b", frames - 1, frames, 0.5)]
    aligned = TimedAlignment(Alignment(np.zeros(frames, np.int32), 0.0, False), spans, spans, 0.5)
    grids = TextGrids(tmp_path, 0.01, seconds={"u": round(0.01 * frames - 0.01, 2)})
    grids.add("u", aligned)
    grids.finish()
    last, tiers = read_textgrid(tmp_path / "u.TextGrid")
    assert last == pytest.approx(0.01 * frames)
    assert [label for *_, label in tiers["phones"]] == ["a", "b"]


def make(*labels: str, frames: int = 10) -> TimedAlignment:
    """Words of so many frames each, which are their own phones."""
    timed = [TimedLabel(x, i * frames, (i + 1) * frames, 0.5) for i, x in enumerate(labels)]
    tids = np.zeros(frames * len(labels), np.int32)
    return TimedAlignment(Alignment(tids, 0.0, False), timed, timed, 0.5)


def test_a_third_reader_sees_them(tmp_path: Path) -> None:
    timed = make('say "ah"', "naïve", "λόγος")
    grids = TextGrids(tmp_path, 0.01)
    grids.add("u", timed)
    grids.finish()
    tiers = by_tgt(tmp_path / "u.TextGrid")
    check(tiers["words"], in_seconds(timed.words, 0.0, 0.01))
    assert tiers["phones"] == by_praatio(tmp_path / "u.TextGrid")["phones"]


PLACES = {
    "b": Place("rec", "1", 2.5),
    "a": Place("rec", "1", 0.5),
    "c": Place("other", "1", 1.0),
}


def test_utterances_of_a_recording_share_its_textgrid(tmp_path: Path) -> None:
    grids = TextGrids(tmp_path, 0.01, dict.fromkeys("abc", "s"), PLACES, {"rec": 9.0})
    files = TimedFiles(tmp_path, 0.01, PLACES, grids)
    passed = dict(files.collect([(utt, make(f"{utt}1", f"{utt}2")) for utt in "bac"]))
    files.write_textgrids()
    assert passed.keys() == {"a", "b", "c"}
    end, tiers = read_textgrid(tmp_path / "rec.TextGrid")
    assert end == 9.0
    assert tiers["words"] == tiers["phones"]
    assert tiers["words"] == [
        (0.5, 0.6, "a1"),
        (0.6, 0.7, "a2"),
        (2.5, 2.6, "b1"),
        (2.6, 2.7, "b2"),
    ]
    assert read_textgrid(tmp_path / "other.TextGrid")[1]["words"][0] == (1.0, 1.1, "c1")
    assert (tmp_path / "words.ctm").read_text().splitlines()[1:4] == [
        "other 1 1.10 0.10 c2 0.50",
        "rec 1 0.50 0.10 a1 0.50",
        "rec 1 0.60 0.10 a2 0.50",
    ]
    assert (tmp_path / "confidence.txt").read_text() == "b 0.5000\na 0.5000\nc 0.5000\n"


def test_sides_of_a_call_are_channels_of_a_ctm(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("u call 0 1 0\nv call 0 1 1\nw call 3 4 -1\nx call 4 5\n")
    places = read_places(tmp_path)
    files = TimedFiles(tmp_path, 0.01, places)
    list(files.collect([(utt, make(utt)) for utt in "vuwx"]))
    lines = [line.split() for line in (tmp_path / "words.ctm").read_text().splitlines()]
    assert [(line[1], line[4]) for line in lines] == [
        ("1", "u"),
        ("1", "w"),
        ("1", "x"),
        ("2", "v"),
    ]
    (tmp_path / "reco2file_and_channel").write_text("call sw02 B\n")
    assert {place.channel for place in (read_places(tmp_path) or {}).values()} == {"B"}


@pytest.mark.parametrize(("channel", "named"), [(None, "1"), ("mean", "1"), (0, "1"), (2, "3")])
def test_a_file_has_the_channel_that_was_aligned(
    channel: Channel | None, named: str, tmp_path: Path
) -> None:
    timed = make("a", "b")
    AlignedFile(Path("u.wav"), 1.0, 0.01, timed, channel=channel).write(tmp_path, None)
    for name in ("words.ctm", "phones.ctm"):
        lines = (tmp_path / name).read_text().splitlines()
        assert [line.split()[:2] for line in lines] == [["u", named]] * 2


def test_speakers_of_a_recording_have_tiers_of_their_own(tmp_path: Path) -> None:
    places = {"a": Place("rec", "1", 0.0), "b": Place("rec", "1", 0.05)}
    grids = TextGrids(tmp_path, 0.01, {"a": "ann", "b": "bob"}, places)
    for utt in places:
        grids.add(utt, make(utt))
    grids.finish()
    tiers = by_praatio(tmp_path / "rec.TextGrid")
    assert tiers["ann - words"] == [(0.0, 0.1, "a")]
    assert tiers["bob - phones"] == [(0.05, 0.15, "b")]


def test_utterances_that_overlap_are_named(tmp_path: Path) -> None:
    places = {"a": Place("rec", "1", 0.0), "b": Place("rec", "1", 0.05)}
    grids = TextGrids(tmp_path, 0.01, dict.fromkeys("ab", "ann"), places)
    for utt in places:
        grids.add(utt, make(utt))
    with pytest.raises(InputError, match=r"rec: b begins at 0\.05 s, before a .* at 0\.10 s"):
        grids.finish()


def test_recordings_that_would_be_one_file_are_refused_and_none_is_written(tmp_path: Path) -> None:
    grids = TextGrids(tmp_path / "out", 0.01)
    for utt in ("u", "a/b", "a_b"):
        grids.add(utt, make("x"))
    with pytest.raises(InputError, match=r"a/b and a_b would both be a_b\.TextGrid"):
        grids.finish()
    assert not [*tmp_path.rglob("*.TextGrid")]


@pytest.mark.parametrize("utt", ["../../x", "..", "/x", "a/b", "a/../../../b", ".x.discarded"])
def test_a_textgrid_stays_in_its_folder(utt: str, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    grids = TextGrids(out, 0.01)
    grids.add(utt, make("x"))
    grids.finish()
    assert [path.parent for path in tmp_path.rglob("*") if path.is_file()] == [out]
    assert not Path("/x.TextGrid").exists()


def test_a_frame_that_reaches_into_the_next_utterance_ends_there(tmp_path: Path) -> None:
    places = {"a": Place("rec", "1", 0.0), "b": Place("rec", "1", 0.096)}
    grids = TextGrids(tmp_path, 0.01, dict.fromkeys("ab", "ann"), places)
    for utt in places:
        grids.add(utt, make(utt))
    grids.finish()
    tiers = by_praatio(tmp_path / "rec.TextGrid")
    assert tiers["words"] == [(0.0, 0.096, "a"), (0.096, 0.196, "b")]


def test_nothing_appears_where_the_alignment_fails(tmp_path: Path) -> None:
    def results():
        yield "a", make("x")
        raise InputError("stopped")

    with pytest.raises(InputError, match="stopped"):
        list(TimedFiles(tmp_path, 0.01, None).collect(results()))
    assert not [*tmp_path.iterdir()]


def test_utterances_that_fail_pass_through(tmp_path: Path) -> None:
    error = InputError("b: no path")
    files = TimedFiles(tmp_path, 0.01, None)
    assert [*files.collect([("a", make("x")), ("b", error)])][1] == ("b", error)
    assert files.confidences == {"a": 0.5}


def test_without_praatio_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "praatio", None)
    with pytest.raises(InputError, match=r"need praatio: pip install .*\[textgrid\]'"):
        TextGrids(tmp_path, 0.01)
