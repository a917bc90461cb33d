"""Figures: what they show equals the scores, and no label covers another."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bayes_asr.config.merge import load
from bayes_asr.evaluate.report.charts import chart_confusions, chart_systems
from bayes_asr.evaluate.report.curves import chart_course, chart_curves
from bayes_asr.evaluate.report.details import count_confusions
from bayes_asr.evaluate.report.figures import (
    draw_bars,
    draw_confusions,
    draw_curves,
    save_attention,
)
from bayes_asr.evaluate.report.runs import ReportedSystem, find_systems
from bayes_asr.evaluate.score.counts import Edit
from tests.support.report_runs import make_run

KEY = ("test", "strict")
NAMES = str.split(
    "tanh relu-rnn sigmoid bru bru-softplus lstm gru li-gru li-gru-softplus li-bru li-bru-log mgu"
)


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> list[ReportedSystem]:
    """Twelve systems of two seeds each."""
    out = tmp_path_factory.mktemp("twelve")
    for i, name in enumerate(NAMES):
        for seed in (1, 2):
            make_run(out / name / f"seed{seed}", 0.2 + 0.02 * i, seed)
    return find_systems([out])


def boxes(figure: Figure, texts: list[Text]) -> list[Bbox]:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [text.get_window_extent(canvas.get_renderer()) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3, 12])
def test_labels_of_bars_do_not_overlap(twelve: list[ReportedSystem], number: int) -> None:
    figure = draw_bars(chart_systems(twelve[:number], KEY))
    (axes,) = figure.axes
    names = axes.get_xticklabels()
    found = boxes(figure, [*axes.texts, axes.title])
    assert not any(a.overlaps(b) for a, b in itertools.combinations(found[:-1], 2))
    # Names at 40 degrees lie side by side: what keeps them apart is the step between their ends.
    ends = boxes(figure, names)
    steps = np.diff([box.x1 for box in ends])
    if names[0].get_rotation() == 0:
        assert not any(a.overlaps(b) for a, b in itertools.combinations(ends, 2))
    else:
        height = names[0].get_fontsize() * figure.dpi / 72
        assert (steps * np.sin(np.radians(40)) > height).all()
    width, height = figure.canvas.get_width_height()
    assert all(min(box.x0, box.y0) >= 0 and box.x1 <= width for box in ends)


def test_bars_are_means_and_intervals(twelve: list[ReportedSystem]) -> None:
    (axes,) = draw_bars(chart_systems(twelve, KEY)).axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([system.rates(KEY).mean() for system in twelve])
    assert [text.get_text() for text in axes.texts] == [f"{height:.1f}" for height in heights]
    (segment,) = axes.containers[1].lines[2][0].get_segments()
    assert segment[:, 1] == pytest.approx(twelve[0].interval(KEY))
    assert axes.get_ylabel() == "test PER (strict) / %"


def test_learning_curves_are_means_over_seeds(twelve: list[ReportedSystem]) -> None:
    figure = draw_curves(chart_curves(twelve))
    train, dev = figure.axes
    errors = [[h["dev_error"] for h in run.history] for run in twelve[0].runs]
    assert dev.lines[0].get_ydata() == pytest.approx(100 * np.mean(errors, axis=0))
    assert len(train.lines) == len(dev.lines) == 12
    styles = {(line.get_color(), line.get_linestyle()) for line in dev.lines}
    assert len(styles) == 12
    (legend,) = figure.legends
    found = boxes(figure, list(legend.get_texts()))
    assert not any(a.overlaps(b) for a, b in itertools.combinations(found, 2))
    right = max(axes.get_window_extent().x1 for axes in figure.axes)
    assert min(box.x0 for box in found) > right


def test_each_measure_has_panels_of_its_own(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    run = make_run(tmp_path / "b")
    load([], ["train.criterion=mpe", "data.train.lattices=[x]"]).save(run / "config.yaml")
    figure = draw_curves(chart_curves(find_systems([tmp_path])))
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["frame error / %", "", "loss", ""]
    history = find_systems([run])[0].runs[0].history
    for axes, key in zip(figure.axes[2:], ("train_loss", "dev_loss"), strict=True):
        assert axes.lines[0].get_ydata() == pytest.approx([entry[key] for entry in history])
    first, second = (axes.lines[0].get_color() for axes in figure.axes[::2])
    assert first != second


def test_what_a_decoder_is_told_stands_beside_nothing_that_it_writes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    load([], ["data.sequences=text"]).save(run / "config.yaml")
    systems = find_systems([tmp_path])
    figure = draw_curves(chart_curves(systems))
    (dev,) = figure.axes
    assert (dev.get_title(), dev.get_ylabel()) == ("dev", "error of labels / %")
    errors = [100 * entry["dev_error"] for entry in systems[0].runs[0].history]
    assert dev.lines[0].get_ydata() == pytest.approx(errors)
    (chart,) = chart_curves(systems)
    assert [panel.key for panel in chart.panels] == list(chart.curves[0].values) == ["dev_error"]


def test_no_curves_without_a_history(tmp_path: Path) -> None:
    (make_run(tmp_path) / "history.jsonl").unlink()
    assert not chart_curves(find_systems([tmp_path]))
    assert chart_course(find_systems([tmp_path])) is None


def test_figures_have_the_values_and_scales_of_the_course(twelve: list[ReportedSystem]) -> None:
    chart = chart_course(twelve)
    assert chart
    rate, norm, seconds = draw_curves([chart]).axes
    for axes, key in ((rate, "learning_rate"), (norm, "gradient_norm"), (seconds, "seconds")):
        for line, system in zip(axes.lines, twelve, strict=True):
            by_run = [[entry[key] for entry in run.history] for run in system.runs]
            assert line.get_ydata() == pytest.approx(np.mean(by_run, axis=0))
    assert norm.get_ylim()[0] == 0
    assert norm.get_ylim()[1] == chart.panels[1].axis.ticks[-1]


def test_matrix_shows_shares_of_rows() -> None:
    table = pd.DataFrame([[8, 2], [0, 0]], index=["aa", "–"], columns=["aa", "–"])
    axes = draw_confusions(chart_confusions(table), "title").axes[0]
    assert axes.images[0].get_array().tolist() == [[80, 20], [0, 0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["aa", "–"]


def test_classes_have_no_deletions_to_draw() -> None:
    edits = [Edit("substitution", "fi", "et"), Edit("correct", "fi", "fi")]
    axes = draw_confusions(chart_confusions(count_confusions(edits)), "title").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["et", "fi"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("recognised", "said")
    assert chart_confusions(count_confusions(edits)).alt.startswith("2 tokens; 1 of 2 were")


@pytest.mark.slow
def test_names_of_a_matrix_of_phones_do_not_overlap() -> None:
    names = [f"p{i}" for i in range(40)]
    figure = draw_confusions(chart_confusions(pd.DataFrame(1, index=names, columns=names)), "title")
    for labels in (figure.axes[0].get_xticklabels(), figure.axes[0].get_yticklabels()):
        found = boxes(figure, labels)
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("utt", ["../../x", "a/b", "50%"])
def test_a_picture_of_an_utterance_stays_in_its_folder(utt: str, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    out.mkdir(parents=True)
    save_attention(Figure(), utt, out)
    assert [path.parent for path in tmp_path.rglob("*.svg")] == [out]
