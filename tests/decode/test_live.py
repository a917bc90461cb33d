"""Words while one speaks: settled words stay, and an utterance ends with the words that it has
offline.
"""

import io
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.data.sound.spectrum import Analysis
from bayes_asr.decode.live import FinalResult, PartialResult, open_live
from bayes_asr.decode.recordings import RecordingFrontEnd
from tests.support.places import CONF
from tests.support.sounds import riff
from tests.support.tones import RATE, TINY, command, speak

pytestmark = pytest.mark.slow


def train_forwards(run: Path, cmvn: str) -> Path:
    """Train a network that reads forwards only."""
    out = run.parent / f"forwards_{cmvn}"
    forwards = {"features.cmvn": cmvn, "model.bidirectional": "false", "train.epochs": 10}
    # In so small a graph min_active would let every token live, and nothing would be settled.
    settings = TINY | forwards | {"decode.min_active": 0}
    chosen = [f"--set={key}={value}" for key, value in settings.items()]
    command("train", CONF / "base.yaml", *chosen, f"--set=data.dir={run.parent}", "--out", out)
    command("forward", out, "--on", "dev")
    command("decode", out, "--on", "dev")
    command("score", out)
    return out


@pytest.fixture(scope="module")
def forward_run(run: Path) -> Path:
    """A run on features that need no speaker."""
    return train_forwards(run, "none")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    """Two utterances of four words, with a pause behind each."""
    rng = np.random.default_rng(7)
    pause = rng.normal(0, 300, RATE).astype(np.int16)
    parts = [speak(words, rng).samples[:, 0] for words in (["six", "one", "two", "one"],) * 2]
    return np.concatenate([parts[0], pause, parts[1], pause])


@pytest.mark.parametrize("seed", range(3))
def test_utterances_are_those_of_their_sound(
    seed: int, forward_run: Path, samples: np.ndarray, tmp_path: Path
) -> None:
    live = open_live(forward_run)
    rng = np.random.default_rng(seed)
    cuts = np.cumsum(rng.integers(1, 5000, 2 * len(samples) // 5000))
    news = [live.push(part) for part in np.split(samples, cuts[cuts < len(samples)])]
    news.append(live.finish())
    settled: list[str] = []
    heard = []
    for item in news:
        if isinstance(item, PartialResult):
            assert item.settled[: len(settled)] == settled
            settled = item.settled
        else:
            heard.append(item)
            settled = []
    assert [word.word for item in heard for word in item.words] == ["six", "one", "two", "one"] * 2
    assert heard[0].begin == 0
    assert [item.end for item in heard[:-1]] == [item.begin for item in heard[1:]]
    for item in heard:
        if not item.words:
            continue
        begin, end = round(item.begin * RATE), round(item.end * RATE) + 240  # 25 ms less 10
        (tmp_path / "part.wav").write_bytes(riff(samples[begin:end, None]))
        (offline,) = bayes_asr.transcribe(forward_run, [tmp_path / "part.wav"])
        assert [(w.word, w.confidence) for w in offline.words] == [
            (w.word, w.confidence) for w in item.words
        ]
        times = [round(w.start - item.begin, 3) for w in item.words]
        assert [w.start for w in offline.words] == pytest.approx(times, abs=0.0011)


def test_words_are_settled_before_the_utterance_is_over(
    forward_run: Path, samples: np.ndarray
) -> None:
    live = open_live(forward_run)
    news = [
        live.push(part) for part in np.split(samples, range(RATE // 10, len(samples), RATE // 10))
    ]
    most = max(len(item.settled) for item in news if isinstance(item, PartialResult))
    assert most >= 2
    ends = [i for i, item in enumerate(news) if isinstance(item, FinalResult) and item.words]
    assert ends
    # What is read before the end is what the end has; its confidence lacks later sound alone.
    for begin, end in pairwise([0, *ends]):
        read, words = news[end - 1].read, news[end].words
        assert 1 <= len(read) <= len(words)
        for early, word in zip(read, words, strict=False):
            assert early.word == word.word
            assert early.confidence == pytest.approx(word.confidence, abs=0.05)
            assert early.start < word.end
            assert early.end > word.start
        counts = [len(item.read) for item in news[begin + 1 : end]]
        assert counts == sorted(counts)


def test_long_silence_ends_an_utterance_without_words(
    forward_run: Path, samples: np.ndarray
) -> None:
    quiet = np.random.default_rng(1).normal(0, 300, 12 * RATE).astype(np.int16)
    live = open_live(forward_run)
    sound = np.concatenate([quiet, samples])
    pieces = np.split(sound, range(RATE // 10, len(sound), RATE // 10))
    first, *others = [item for item in map(live.push, pieces) if isinstance(item, FinalResult)]
    assert first.words == []
    assert 10 <= first.end < 10.2
    assert [w.word for item in others for w in item.words] == ["six", "one", "two", "one"] * 2


def test_digital_silence_is_not_heard(forward_run: Path, samples: np.ndarray) -> None:
    zeros = np.zeros(4 * RATE, np.int16)
    sound = np.concatenate([zeros, samples, zeros, samples])
    live = open_live(forward_run)
    news = [live.push(part) for part in np.split(sound, range(1000, len(sound), 1000))]
    heard = [
        item for item in [*news, live.finish()] if isinstance(item, FinalResult) and item.words
    ]
    assert [[w.word for w in item.words] for item in heard] == [["six", "one", "two", "one"]] * 4
    second = 4 + len(samples) / RATE
    assert heard[0].begin == pytest.approx(4, abs=0.1)
    assert heard[1].end <= second
    assert heard[2].begin == pytest.approx(second + 4, abs=0.1)
    muted = news[: len(zeros) // 1000]
    assert muted == [PartialResult(item.begin, [], []) for item in muted]


def test_digital_silence_tells_nothing_of_the_speaker(
    run: Path, samples: np.ndarray, tmp_path: Path
) -> None:
    normalising, speaker = train_forwards(run, "mean"), tmp_path / "speaker.wav"
    speaker.write_bytes(riff(np.concatenate([np.zeros(20 * RATE, np.int16), samples])[:, None]))
    live = open_live(normalising, speaker)
    news = [live.push(part) for part in np.split(samples, range(1000, len(samples), 1000))]
    heard = [item for item in [*news, live.finish()] if isinstance(item, FinalResult)]
    assert [w.word for item in heard for w in item.words] == ["six", "one", "two", "one"] * 2


def test_the_verb_hears_a_pipe(
    forward_run: Path,
    samples: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def hear(*arguments: str) -> str:
        stdin = io.TextIOWrapper(io.BytesIO(samples.tobytes()))
        monkeypatch.setattr("sys.stdin", stdin)
        command("transcribe", forward_run, "-", "--live", *arguments)
        return capsys.readouterr().out

    capsys.readouterr()
    said = [line.split()[2:] for line in hear().splitlines()]
    assert said == [["six", "one", "two", "one"]] * 2
    news = [json.loads(line) for line in hear("--json").splitlines()]
    assert {tuple(item) for item in news} == {
        ("begin", "settled", "open", "read"),
        ("begin", "end", "words"),
    }


def test_what_needs_the_whole_sound_is_refused(
    run: Path,
    forward_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(InputError, match="give --speaker FILE, a recording of whoever will speak"):
        open_live(run)
    speaker = run.parent / "data" / "dev" / "s0-0.wav"
    with pytest.raises(InputError, match="--speaker"):
        open_live(forward_run, speaker)
    with pytest.raises(InputError, match="reads an utterance from its end too"):
        open_live(run, speaker)
    for arguments, message in (
        ([str(speaker), "--live"], "hearing a pipe: bayes-asr transcribe RUN - --live"),
        (["-", "--live", "--ctm", str(tmp_path / "ctm")], "--ctm: of files, not of --live"),
        (["-", "--speaker", str(speaker)], "hearing a pipe"),
    ):
        assert main(["transcribe", str(forward_run), *arguments]) == 1
        assert message in capsys.readouterr().err


def test_streams_of_two_rates_are_refused(
    forward_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyses = {str(rate): Analysis("fbank", sample_rate=rate) for rate in (16000, 8000)}
    front_end = RecordingFrontEnd({}, analyses, {})
    monkeypatch.setattr(RecordingFrontEnd, "open", lambda *_: front_end)
    with pytest.raises(InputError, match=f"^{forward_run}: .*8000 .*16000 Hz"):
        open_live(forward_run)


def test_the_next_utterance_begins_where_one_fails(
    forward_run: Path, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise InputError("costs are too large")

    live, half = open_live(forward_run), len(samples) // 2
    with monkeypatch.context() as patch:
        patch.setattr("bayes_asr.decode.search.lattice_session.LatticeSession.finish", fail)
        with pytest.raises(InputError, match="too large"):
            live.push(samples[:half])
    heard = live.push(samples[half:])
    assert isinstance(heard, FinalResult)
    assert [word.word for word in heard.words] == ["six", "one", "two", "one"]
    for time in (heard.begin, *(word.start for word in heard.words)):
        assert time == round(time, 3)
