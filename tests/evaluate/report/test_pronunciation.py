"""The page of pronunciation: pictures of known sound, boxes in their places, names escaped."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.evaluate.report.pronunciation import (
    WORST,
    draw_spectrogram,
    write_pronunciation_page,
)
from bayes_asr.evaluate.report.sounds import iter_sounds
from tests.support.sounds import riff

pytest.importorskip("jinja2")
image = pytest.importorskip("PIL.Image")
RATE = 16000


def test_a_tone_is_the_dark_row_of_its_frequency() -> None:
    time = np.arange(RATE // 2) / RATE
    for hertz in (500, 2000, 6000):
        picture = image.open(io.BytesIO(draw_spectrogram(3000 * np.sin(2 * np.pi * hertz * time))))
        shades = np.array(picture)
        assert shades.shape == (128, 100)
        darkest = shades[:, 20:80].sum(axis=1).argmin()
        assert 8000 * (1 - (darkest + 0.5) / 128) == pytest.approx(hertz, abs=8000 / 128)


def phone(name: str, start: float, end: float, gop: float, likeliest: str) -> dict[str, Any]:
    times = {"start": start, "end": end, "gop": gop, "loop_ratio": gop / 2, "log_posterior": gop}
    return {"phone": name, **times, "likeliest": likeliest}


def utterance(name: str, gop: float) -> dict[str, Any]:
    phones = [phone("a", 0.1, 0.3, 0.0, "a"), phone("b<", 0.3, 0.5, 2 * gop, "d")]
    word = {"word": "<ab>", "start": 0.1, "end": 0.5, "gop": gop, "loop_ratio": gop / 2}
    return {"utterance": name, "gop": gop, "words": [{**word, "phones": phones}]}


def test_boxes_have_places_colours_and_meanings(tmp_path: Path) -> None:
    scored = [utterance("good", 0.0), utterance("bad", WORST / 2)]
    write_pronunciation_page(scored, tmp_path, "bayes-asr pronunciation RUN", lambda _: ())
    page = (tmp_path / "pronunciation.html").read_text()
    assert page.index("<b>bad</b>") < page.index("<b>good</b>")
    assert "left:20.0%;width:40.0%;--s:0" in page
    assert 'class="strong" style="left:60.0%;width:40.0%;--s:100"' in page
    assert "b&lt;: goodness -5.00, loop ratio -2.50; it sounds like d" in page
    assert "&lt;ab&gt;</span>" in page
    assert "<img" not in page
    assert "<td>b&lt;</td>" in page.replace(' class="short"', "")


def test_sound_is_drawn_and_lies_beside_the_page(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    noise = np.random.default_rng(0).normal(0, 500, (RATE, 1)).round().astype(np.int16)
    (data / "bad.wav").write_bytes(riff(noise))
    (data / "wav.scp").write_text(f"bad {data / 'bad.wav'}\n")
    scored = [utterance("bad", -1.0), utterance("good", 0.0)]
    write_pronunciation_page(scored, out, "", partial(iter_sounds, data))
    page = (out / "pronunciation.html").read_text()
    assert page.count("<img") == 1
    assert 'src="sounds/bad.wav"' in page
    assert (out / "sounds" / "bad.wav").stat().st_size == 44 + 2 * RATE
    assert "left:10.0%;width:20.0%" in page  # of the second that the sound lasts


@pytest.mark.parametrize("listed", [["bad"], []])
def test_recordings_of_other_utterances_need_not_be_there(listed: list, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 500, (RATE, 1)).round().astype(np.int16)
    (tmp_path / "r.wav").write_bytes(riff(noise))
    (tmp_path / "wav.scp").write_text(f"r {tmp_path / 'r.wav'}\n")
    (tmp_path / "segments").write_text("a gone 0 1\nb gone 0 1\nbad r 0.25 0.75\nc r 0 1\n")
    found = {utt: samples[:, None] for utt, samples in iter_sounds(tmp_path, listed)}
    assert [*found] == listed
    for samples in found.values():
        np.testing.assert_array_equal(samples, noise[RATE // 4 : 3 * RATE // 4])


@pytest.mark.parametrize("utt", ["../../x", "..", "/x", "a/../../../b"])
def test_sound_of_any_name_lies_beside_the_page(utt: str, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    sound = np.zeros(RATE)
    write_pronunciation_page([utterance(utt, -1.0)], out, "", lambda _: [(utt, sound)])
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {out, out / "sounds"}
