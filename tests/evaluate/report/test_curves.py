"""Curves of trainings: their values are the histories', on scales that hold them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.config.merge import load
from bayes_asr.evaluate.report.curves import CurveChart, chart_course, chart_curves
from bayes_asr.evaluate.report.runs import find_systems
from bayes_asr.evaluate.report.scales import make_logarithmic_scale
from tests.support.report_runs import make_run, read_page, run_report

KEYS = ["learning_rate", "gradient_norm", "seconds"]


def edit_history(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change each line of the history of a run in place."""
    entries = list(map(json.loads, (run / "history.jsonl").read_text().splitlines()))
    for entry in entries:
        edit(entry)
    (run / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def make_course(tmp_path: Path) -> CurveChart:
    chart = chart_course(find_systems([tmp_path]))
    assert chart
    return chart


def test_a_course_is_the_mean_over_seeds_of_what_the_histories_have(tmp_path: Path) -> None:
    for seed in (1, 2):
        run = make_run(tmp_path / "gru" / f"seed{seed}", seed=seed)
        settings = {"learning_rate": 0.01 * seed, "gradient_norm": 3.0 * seed}
        edit_history(run, lambda e, new=settings, s=seed: e.update(new, seconds=e["epoch"] * s))
    chart = make_course(tmp_path)
    (curve,) = chart.curves
    assert [panel.key for panel in chart.panels] == list(curve.values) == KEYS
    expected = [0.015] * 24, [4.5] * 24, 1.5 * np.arange(1, 25)
    for key, values in zip(KEYS, expected, strict=True):
        assert curve.values[key] == pytest.approx(values)
    # The sum of 1 to 24 is 300, so the trainings took 450 s.
    assert curve.alt == (
        "gru: learning rate 0.015 to 0.015, mean gradient norm 4.5 to 4.5, seconds 1.5 to 36"
        " from epoch 1 to 24; 0:07:30 in all."
    )


def test_points_are_where_the_axis_has_their_values(tmp_path: Path) -> None:
    make_run(tmp_path / "gru")
    edit_history(tmp_path / "gru", lambda e: e.update(learning_rate=0.02 * 0.5 ** e["epoch"]))
    chart = make_course(tmp_path)
    for panel in chart.panels:
        (curve,) = chart.curves
        pairs = [point.split(",") for point in chart.points(curve, panel).split()]
        x, y = np.array(pairs, float).T
        assert x == pytest.approx(np.linspace(0, 100, 24), abs=0.01)
        low, high = panel.axis.ticks[0], panel.axis.ticks[-1]
        share = (100 - y) / 100
        drawn = low + share * (high - low)
        if panel.key == "learning_rate":  # which is halved 23 times, and wants a scale of factors
            assert panel.title == "learning rate, logarithmic"
            drawn = low * (high / low) ** share
        else:
            assert low == 0
        assert drawn == pytest.approx(curve.values[panel.key], rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (2e-4, 3e-2, [1e-4, 1e-3, 1e-2, 1e-1]),
        (1e-3, 1e-3, [1e-3, 1e-2]),
        (1e-8, 1e-2, [1e-8, 1e-6, 1e-4, 1e-2]),
        (1e-8, 5e-2, [1e-8, 1e-6, 1e-4, 1e-2, 1]),
    ],
)
def test_logarithmic_scales_are_powers_of_ten_at_equal_steps(
    low: float, high: float, ticks: list[float]
) -> None:
    axis = make_logarithmic_scale(low, high)
    assert axis.ticks == pytest.approx(ticks)
    assert [axis.place(tick) for tick in ticks] == pytest.approx(
        np.linspace(0, 100, len(ticks)), abs=0.01
    )


@pytest.mark.parametrize("value", [0, 1e-9, 0.003, 1, 86400])
def test_equal_values_have_a_scale(tmp_path: Path, value: float) -> None:
    make_run(tmp_path / "gru")
    edit_history(tmp_path / "gru", lambda entry: entry.update(dict.fromkeys(KEYS, value)))
    chart = make_course(tmp_path)
    for panel in chart.panels:
        assert panel.axis.ticks[0] == 0
        assert len(panel.axis.ticks) == len(set(panel.axis.ticks)) >= 2
        assert (80 if value else 0) <= panel.axis.place(value) <= (100 if value else 0)


@pytest.mark.parametrize(
    "lack", [lambda entry: entry.pop("gradient_norm"), lambda e: e.update(gradient_norm=None)]
)
def test_what_an_old_history_lacks_is_not_drawn_of_it_alone(
    tmp_path: Path, lack: Callable[[dict[str, Any]], object]
) -> None:
    """Nor what is no number; the other systems keep their curves, and all their colours."""
    for name in ("a", "b"):
        make_run(tmp_path / name)
    edit_history(tmp_path / "a", lack)
    chart = make_course(tmp_path)
    drawn = {p.key: [c.name for c in chart.curves if p.key in c.values] for p in chart.panels}
    assert drawn == {"learning_rate": ["a", "b"], "gradient_norm": ["b"], "seconds": ["a", "b"]}
    assert [curve.style for curve in chart.curves] == [0, 1]
    assert "norm" not in chart.curves[0].alt


def test_without_rates_and_norms_the_time_is_drawn(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    edit_history(tmp_path / "a", lambda e: (e.pop("gradient_norm"), e.pop("learning_rate")))
    assert [panel.key for panel in make_course(tmp_path).panels] == ["seconds"]


def test_a_system_has_one_colour_in_all_charts(tmp_path: Path) -> None:
    for name, changes in {
        "a": [],
        "b": ["train.criterion=smbr", "data.train.lattices=[x]"],
        "c": [],
    }.items():
        load([], changes).save(make_run(tmp_path / name) / "config.yaml")
    charts = [*chart_curves(find_systems([tmp_path])), make_course(tmp_path)]
    styles = [{curve.name: curve.style for curve in chart.curves} for chart in charts]
    assert styles == [{"a": 0, "c": 2}, {"b": 1}, {"a": 0, "b": 1, "c": 2}]


@pytest.mark.usefixtures("no_figures")
def test_one_epoch_is_seen(tmp_path: Path) -> None:
    history = make_run(tmp_path / "a") / "history.jsonl"
    history.write_text(history.read_text().splitlines()[0] + "\n")
    run_report(tmp_path, "--out", tmp_path / "out")
    lines = [a["points"] for tag, a in read_page(tmp_path / "out").attributes if tag == "polyline"]
    assert len(lines) == 5
    for line in lines:
        (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in str(line).split())
        assert (x0, y0) == (0, y1)
        assert x1 > 0
