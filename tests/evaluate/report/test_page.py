"""The report as a whole, and its details."""

import json
import re
import shlex
import shutil
import sys
import wave
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr import __version__
from bayes_asr.config.merge import load
from bayes_asr.evaluate.report.charts import chart_systems
from bayes_asr.evaluate.report.page import explain
from bayes_asr.evaluate.report.rendering import name_files
from bayes_asr.evaluate.report.runs import ReportedSystem, Run, find_systems
from tests.support.report_runs import (
    KEY,
    make_mixtures,
    make_run,
    make_score,
    read_page,
    run_report,
)
from tests.support.sounds import riff


@pytest.mark.slow
def test_page_stands_alone(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_report(out, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert not re.findall(r"src=|href=|url\(|@import|https?:", page)
    assert page.count("<figure>") == 2 + 2 + 2 + 3  # curves, rates, kinds of errors, confusions
    assert "li &amp; &lt;bru&gt;" in page
    assert "<bru>" not in page
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert {
        "table.md",
        "table.tex",
        "speakers_test_strict.md",
        "errors/gru_test_strict.txt",
    } < files
    assert {
        "figures/bars_test_strict.png",
        "figures/learning_curves.svg",
        "figures/training.svg",
    } < files
    last = capsys.readouterr().out.splitlines()[-6:]
    assert [line.split()[0] for line in last[:2]] == ["gru", "li"]


@pytest.mark.slow
def test_page_without_matplotlib(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("bayes_asr.evaluate.report.page.find_spec", lambda name: None)
    run_report(out, "--out", tmp_path)
    assert "no figure files: matplotlib is not installed" in capsys.readouterr().out
    assert (tmp_path / "report.html").read_text().count("<figure>") == 9
    assert not (tmp_path / "figures").exists()


@pytest.mark.usefixtures("no_figures")
@pytest.mark.slow
def test_json_is_the_table(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_report(out, "--out", tmp_path, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["system"] for row in rows] == ["gru", "li & <bru>", "lstm"] * 2
    assert rows[0].keys() == rows[5].keys() > {"rate", "LM weight", "dev %", "test 95 %"}


@pytest.mark.slow
def test_report_lies_beside_the_runs_and_may_be_repeated(out: Path) -> None:
    run_report(out / "gru")
    first = (out / "gru" / "report" / "report.html").read_bytes()
    run_report(out / "gru")
    assert (out / "gru" / "report" / "report.html").read_bytes() == first


@pytest.mark.usefixtures("no_figures")
@pytest.mark.slow
def test_files_of_an_earlier_report_go(out: Path, tmp_path: Path) -> None:
    def files() -> set[str]:
        return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}

    own = {"speakers_of_mine.md", "figures/bars_mine.svg", "errors/a_b_c.txt", "sounds/mine.wav"}
    for name in own:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    run_report(out / "gru", "--out", tmp_path)
    of_one = files()
    assert own < of_one
    run_report(out, "--out", tmp_path)
    (tmp_path / "figures/bars_test_strict.svg").touch()  # as that report would have drawn it
    assert "differences_test_strict.md" in files() - of_one
    run_report(out / "gru", "--out", tmp_path)
    assert files() == of_one


def pages_of(tmp_path: Path, **names: str) -> Path:
    """A report on runs of these folders; each value replaces the name of a speaker."""
    for i, (folder, speaker) in enumerate(names.items()):
        run = make_run(tmp_path / "runs" / folder, 0.3 + i / 10)
        for name in ("dev", "test"):
            path = run / f"score_{name}.json"
            entries = json.loads(path.read_text())
            for entry in entries:
                for utterance in entry["utterances"]:
                    utterance["speaker"] = utterance["speaker"].replace("spk1", speaker)
            path.write_text(json.dumps(entries))
    run_report(tmp_path / "runs", "--out", tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("conventions", "told"), [(["strict", "forgiving"], True), (["plain"], False)]
)
def test_conventions_are_told_apart_where_there_are_several(
    conventions: list[str], told: bool
) -> None:
    scores = {("test", name): make_score(1, 0.3, "test", name) for name in conventions}
    run = Run(Path("run"), scores, [], None, {}, {})
    assert ("silences" in explain([ReportedSystem("one", [run])])) == told


@pytest.mark.usefixtures("no_figures")
@pytest.mark.slow
def test_conventions_that_count_alike_are_shown_once(out: Path, tmp_path: Path) -> None:
    """On the page; tables and files have all. One utterance that differs has them told apart."""
    runs = shutil.copytree(out, tmp_path / "runs")
    for path in runs.rglob("score_*.json"):
        strict, _ = json.loads(path.read_text())
        path.write_text(json.dumps([strict, strict | {"convention": "forgiving"}]))
    run_report(runs, "--out", tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    assert "Here strict and forgiving are the same; the page has strict." in page
    assert page.count("test PER, ") == 1
    assert "<h2>test, forgiving</h2>" not in page
    assert "PER forgiving" not in page
    assert "PER forgiving" in (tmp_path / "out/table.md").read_text()
    assert (tmp_path / "out/differences_test_forgiving.md").exists()
    path = runs / "gru/seed1/score_test.json"
    shutil.copy(out / "gru/seed1/score_test.json", path)
    run_report(runs, "--out", tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    assert "are the same" not in page
    assert "<h2>test, forgiving</h2>" in page


@pytest.mark.usefixtures("no_figures")
def test_one_seed_is_no_mean(out: Path, tmp_path: Path) -> None:
    one = tmp_path / "one/gru"
    shutil.copytree(out / "gru/seed1", one / "seed1")
    captions = {}
    for runs in (out, one.parent):
        run_report(runs, "--out", tmp_path / "out")
        captions[runs] = " ".join(read_page(tmp_path / "out").texts["figcaption"])
    for said in ("small dots are seeds", "over all seeds", "mean over seeds"):
        assert said in captions[out]
        assert said not in captions[one.parent]


@pytest.mark.usefixtures("no_figures")
def test_page_suits_a_phone_and_the_dark(out: Path, tmp_path: Path) -> None:
    run_report(out / "gru", "--out", tmp_path)
    page = read_page(tmp_path)
    metas = [attributes for tag, attributes in page.attributes if tag == "meta"]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in metas
    assert "prefers-color-scheme: dark" in "".join(page.texts["style"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_labels_of_charts_tell_their_numbers(
    out: Path, tmp_path: Path, systems: list[ReportedSystem]
) -> None:
    run_report(out, "--out", tmp_path)
    labels = read_page(tmp_path).labels()
    for system in systems:
        rate, interval = system.rates(KEY).mean(), system.interval(KEY)
        assert interval
        said = f"{system.name} {rate:.2f} % (95 % {interval.low:.2f} to {interval.high:.2f})"
        assert any(said in label for label in labels)
        dev = np.mean([[h["dev_error"] for h in r.history] for r in system.runs], axis=0)
        said = f"{system.name}: dev frame error {100 * dev[0]:.1f} % after epoch 1"
        assert any(said in label for label in labels)
        counts = [run.scores[KEY].counts for run in system.runs]
        said = f"{system.name}: {sum(c.substitutions for c in counts)} substitutions"
        assert any(said in label for label in labels)


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_curves_are_of_what_each_training_was_judged_by(out: Path, tmp_path: Path) -> None:
    settings = {
        "smbr": ["train.criterion=smbr", "data.train.lattices=[x]"],
        "classes": ["data.classes=utt2lang"],
        "frames": [],
    }
    for name, changes in settings.items():
        run = shutil.copytree(out / "gru" / "seed1", tmp_path / name)
        load([], changes).save(run / "config.yaml")
    last = json.loads((run / "history.jsonl").read_text().splitlines()[-1])
    run_report(tmp_path, "--out", tmp_path / "report")
    text = (tmp_path / "report" / "report.html").read_text()
    share = f"{100 * last['dev_error']:.1f} % after epoch 24"
    for said in (
        f"smbr: dev loss {3 * np.exp(-1 / 5) + 0.9:.3f} after epoch 1",
        f"{last['dev_loss']:.3f} after epoch 24, lowest",
        f"{share}, lowest {share}",
        "<figcaption>Loss by epoch",
        "<figcaption>Frame error in per cent by epoch",
        "<figcaption>Error of utterances in per cent by epoch",
    ):
        assert said in text
    assert text.count("dev frame error") == 3  # once for the reader, twice for charts' labels


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_rates_have_their_names_where_a_phone_shows_no_heading(out: Path, tmp_path: Path) -> None:
    """Each cell of the results has the name of its column; rates of test stand before others."""
    run_report(out, "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert '<td class="number" data-name="test %">' in page
    assert re.search(r'\.named td\[data-name\^="test"\] { order: -2 }', page)


@pytest.mark.usefixtures("no_figures")
def test_page_says_how_it_was_made(out: Path, tmp_path: Path) -> None:
    environment = {"parameters": 5, "torch": "2.9.9+made", "bayes_asr": "0.0.7", "device": "cpu"}
    run = shutil.copytree(out / "gru" / "seed1", tmp_path / "run")
    (run / "env.json").write_text(json.dumps(environment))
    run_report(run, "--out", tmp_path / "the report")
    page = read_page(tmp_path / "the report")
    assert shlex.join(
        ["bayes-asr", "report", str(run), "--out", str(tmp_path / "the report")]
    ) in "".join(page.texts["code"])
    assert f"bayes_asr {__version__}" in page.texts["dd"]
    assert {str(run), "2.9.9+made", "0.0.7"} < set(page.texts["td"])
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in page.texts["dd"])


@pytest.mark.usefixtures("no_figures")
@pytest.mark.slow
def test_report_has_mixtures_beside_networks(out: Path, tmp_path: Path) -> None:
    """Their row has parameters and features; curves are those of networks."""
    make_mixtures(tmp_path / "gmm" / "mono")
    run_report(out / "gru", tmp_path / "gmm", "--out", tmp_path / "report")
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in (tmp_path / "report" / "table.md").read_text().splitlines()
    ]
    assert [row[:4] for row in rows[2:4]] == [
        ["gru", "–", "6.1 M", "1"],
        ["mono", "MFCC, no fMLLR", "0.081 M", "1"],
    ]
    assert "mono" in "".join(read_page(tmp_path / "report").texts["h3"])


@pytest.mark.usefixtures("no_figures")
def test_errors_of_the_page_are_marked_by_letters(out: Path, tmp_path: Path) -> None:
    run_report(out / "gru", "--out", tmp_path)
    marks = "".join(read_page(tmp_path).texts["u"])
    (system,) = find_systems([out / "gru"])
    counts = system.counts(KEY)[0]
    assert Counter(marks) == {
        "S": counts.substitutions,
        "D": counts.deletions,
        "I": counts.insertions,
    }


@pytest.mark.usefixtures("no_figures")
def test_one_system_is_shown_by_sets_and_speakers(out: Path, tmp_path: Path) -> None:
    run_report(out / "gru", "--out", tmp_path)
    labels = read_page(tmp_path).labels()
    assert any(
        all(key in label for key in ("dev, strict", "dev, forgiving", "test, strict"))
        for label in labels
    )
    assert any("rates of the speakers, the highest first. spk" in label for label in labels)


@pytest.mark.parametrize("places", [1, 2, 20])
def test_scales_hold_their_values(places: int) -> None:
    systems = [ReportedSystem(f"s{i}", [make_score_run(0.1 + 0.03 * i)]) for i in range(places)]
    chart = chart_systems(systems, KEY)
    assert 2 <= len(chart.axis.ticks) <= 8
    for row in chart.rows:
        assert 0 <= chart.axis.place(row.low) <= chart.axis.place(row.rate)
        assert chart.axis.place(row.rate) <= chart.axis.place(row.high) <= 100
    assert [row.rate for row in chart.rows] == [system.rates(KEY).mean() for system in systems]


def make_score_run(rate: float) -> Run:
    return Run(Path("run"), {KEY: make_score(1, rate, "test", "strict")}, [], None, {}, {})


@pytest.mark.slow
def test_dollars_backslashes_and_controls_in_names_are_text(tmp_path: Path) -> None:
    """matplotlib would take `$x$` for a formula, and fail at `$\\x$`."""
    out = pages_of(tmp_path, **{"$\\x$": "<script>alert(1)</script>", "a$b\x1b[2J": "|\x07\x9b"})
    read_page(out)
    text = "".join(path.read_text() for path in out.rglob("*.*") if path.suffix != ".png")
    assert not re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert "<script>alert" not in text
    assert (out / "figures" / "bars_test_strict.svg").stat().st_size


@pytest.mark.slow
def test_words_with_dollars_are_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for path in run.glob("score_*.json"):
        path.write_text(path.read_text().replace("aa", "$\\\\frac$"))
    run_report(run, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "figures" / "confusions_run_test_strict.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["../../escaped", "/absolute", "..", "a\x00b", "x" * 300])
def test_names_of_score_files_stay_below_out(tmp_path: Path, convention: str) -> None:
    run = make_run(tmp_path / "deep" / "er" / "run")
    for path in run.glob("score_*.json"):
        entries = json.loads(path.read_text())
        entries[0]["convention"] = convention
        path.write_text(json.dumps(entries))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    out = tmp_path / "deep" / "er" / "out"
    run_report(run, "--out", out)
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert len(written) == 3 + 2 + 1 + 2 + 6 + 2  # page, tables, speakers, errors, figures
    assert all(path.is_relative_to(out) for path in written)


def test_names_of_files_are_told_apart() -> None:
    assert name_files([("a b",), ("a/b",), ("A_B",), ("..",), ("c", "d")]) == [
        "a_b",
        "a_b-2",
        "A_B-3",
        "..",
        "c_d",
    ]
    long = name_files([("ü" * 300,), ("ü" * 301,)])
    assert len(set(long)) == 2
    assert all(len(name.encode()) < 120 for name in long)


@pytest.mark.usefixtures("no_figures")
@pytest.mark.slow
def test_sound_is_copied_beside_wrong_utterances_where_it_is_asked_for(
    out: Path, tmp_path: Path, messages: Callable[[], str]
) -> None:
    """Of files and of segments; what the directory lacks is counted."""
    names = [f"spk{i % 8}-{i:03d}" for i in range(16)]
    data = tmp_path / "data"
    data.mkdir()
    tone = (8000 * np.sin(np.arange(48000) / 9)).round().astype(np.int16)
    (data / "call.wav").write_bytes(riff(tone[:, None]))
    (data / "wav.scp").write_text(f"call {data}/call.wav\n")
    segments = [f"{name} call {i / 10} {i / 10 + 1}\n" for i, name in enumerate(names[:15])]
    (data / "segments").write_text("".join(segments))
    run_report(out / "gru", "--out", tmp_path / "out", "--sound", data)
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("<audio ") == page.count('src="sounds/') == 15
    assert f"{data}: lacks 1 of the 16 utterances of the page" in messages()
    with wave.open(str(tmp_path / "out/sounds/spk3-003.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 16000, 16000)
        samples = np.frombuffer(file.readframes(16000), "<i2")
    np.testing.assert_array_equal(samples, tone[4800:20800])
    (data / "segments").unlink()
    (data / "wav.scp").write_text(f"{names[3]} {data}/call.wav\nother {data}/absent.wav\n")
    run_report(out / "gru", "--out", tmp_path / "files", "--sound", data)
    assert [file.name for file in (tmp_path / "files/sounds").iterdir()] == ["spk3-003.wav"]
