"""Learning rates: pytorch-kaldi's rule, and closed forms."""

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import SCHEDULES, find
from bayes_asr.config.merge import load
from bayes_asr.train.schedules import cosine, linear, newbob
from bayes_asr.train.trainer import warm_up


@pytest.mark.parametrize(
    ("errors", "rate"),
    [
        ([], 1.0),
        ([0.5], 1.0),
        ([0.5, 0.4], 1.0),
        ([0.5, 0.4999], 0.5),  # fell by 0.0002 of itself: less than 0.001
        ([0.5, 0.4994], 1.0),  # by 0.0012
        ([0.5, 0.5], 0.5),
        ([0.5, 0.6], 0.5),
        ([0.5, 0.6, 0.4], 1.0),  # only the last two epochs count
    ],
)
def test_newbob_is_pytorch_kaldis_rule(errors: list[float], rate: float) -> None:
    """run_exp.py: halve unless (previous - current) / current >= improvement_threshold."""
    config = load([], ["train.schedule=newbob", "train.halving_factor=0.5"]).train
    assert newbob(config, 1.0, errors) == rate
    if len(errors) > 1:
        before, now = errors[-2:]
        fell = (before - now) / now
        assert rate == (1 if fell >= 0.001 else 0.5)


@pytest.mark.parametrize(
    ("losses", "rate"), [([-0.3, -0.31], 1.0), ([-0.31, -0.3], 0.5), ([0.01, -0.01], 1.0)]
)
def test_newbob_takes_losses_below_0(losses: list[float], rate: float) -> None:
    """As of mmi, whose numerator has no graph costs."""
    config = load([], ["train.schedule=newbob", "train.halving_factor=0.5"]).train
    assert newbob(config, 1.0, losses) == rate


def test_cosine_starts_at_the_rate_and_ends_above_0() -> None:
    config = load([], ["train.epochs=4", "train.learning_rate=2"]).train
    rates = [cosine(config, 0.0, [0.5] * done) for done in range(5)]
    np.testing.assert_allclose(rates, [2, 1 + 2**-0.5, 1, 1 - 2**-0.5, 0], atol=1e-12)


def rates(settings: list[str], epochs: int, errors: list[float] | None = None) -> list[float]:
    """What a schedule makes of the epochs, each handed the rate of the one before."""
    config = load([], [*settings, f"train.epochs={epochs}"]).train
    schedule = find(SCHEDULES[config.schedule].function)
    found = [config.learning_rate]
    for done in range(epochs):
        found.append(schedule(config, found[-1], (errors or [0.5] * epochs)[:done]))
    return found[1:]


def test_linear_falls_evenly_to_0_after_the_last_epoch() -> None:
    found = rates(["train.schedule=linear", "train.learning_rate=2"], 5)
    np.testing.assert_allclose(found, [2, 1.6, 1.2, 0.8, 0.4])
    config = load([], ["train.schedule=linear", "train.epochs=5"]).train
    assert linear(config, 0.0, [0.5] * 5) == 0


def test_list_is_pytorch_kaldis_string_in_another_form() -> None:
    """TIMIT_liGRU_fmllr_lr_schedule.cfg: 4e-4*10|2e-4*4|1e-4*4|5e-5*2|2.5e-5*2|1.25e-5*2."""
    string = "0.0004*10|0.0002*4|0.0001*4|0.00005*2|0.000025*2|0.0000125*2"
    expected, first, changes = [], 1, {}
    for item in string.split("|"):
        value, count = item.split("*")
        expected += [float(value)] * int(count)
        changes[first] = float(value)
        first += int(count)
    settings = ["train.schedule=list", f"train.learning_rates={changes}"]
    assert rates(settings, 24) == expected
    assert rates(settings, 30)[24:] == [1.25e-5] * 6, "the last one stays"
    assert SCHEDULES["list"].open_ended


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_is_open_ended_does_not_depend_on_the_number_of_epochs(schedule: str) -> None:
    settings = [f"train.schedule={schedule}"]
    settings += ["train.learning_rates={1: 1e-2, 3: 1e-3}"] * (schedule == "list")
    errors = [0.5, 0.4, 0.4, 0.3, 0.3, 0.3]
    same = rates(settings, 4, errors) == rates(settings, 6, errors)[:4]
    assert same == SCHEDULES[schedule].open_ended


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], [1.0] * 8),
        (["train.warmup_batches=5"], [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1]),
        (["train.warmup_epochs=1.5"], [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1, 1]),
        (["train.warmup_epochs=0.25"], [1.0] * 8),
    ],
)
def test_warm_up_is_a_line_from_0(settings: list[str], expected: list[float]) -> None:
    """Of two epochs of four batches."""
    config = load([], settings).train
    found = [warm_up(config, batch / 4, batch) for batch in range(1, 9)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.schedule=list"], "schedule is list, but train.learning_rates is empty"),
        (["train.learning_rates={1: 1}"], "but that is newbob; set both or neither"),
        (["train.schedule=list", "train.learning_rates={2: 1}"], "says nothing of epoch 1"),
        (["train.schedule=list", "train.learning_rates={a: 1}"], r"names a; it must be a whole"),
        (["train.schedule=list", "train.learning_rates={1: 20}"], r"between 1e-08 and 10"),
        (["train.batch_sequences={3: 8}"], "batch_sequences says nothing of epoch 1"),
        (["train.warmup_epochs=1", "train.warmup_batches=3"], "keep one of the two"),
        (["train.momentum=0.9"], "of rmsprop and sgd, but train.optimizer is adam"),
        (["train.optimizer=sgd", "train.nesterov=true"], "wants train.momentum above 0"),
        (["train.betas=[0.9]"], "train.betas has 1 numbers; give two"),
        (["train.optimizer=sgd", "train.amsgrad=true"], "train.amsgrad is of adam"),
    ],
)
def test_options_that_nothing_would_read_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load([], settings)
    assert str(caught.value).startswith("--set "), "it says where that was written"


def test_an_option_of_the_optimizer_of_one_layer_is_read() -> None:
    config = load([], ["train.momentum=0.9", "train.layers.layer1.optimizer=sgd"]).train
    assert config.layers["layer1"].optimizer == "sgd"
