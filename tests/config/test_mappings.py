"""Keys whose values go by names that the user chooses."""

from pathlib import Path

import pytest
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import CONF
from bayes_asr.config.catalogue import PARAMETERS, UNIT_OPTIONS, check_unit
from bayes_asr.config.changes import describe_changes
from bayes_asr.config.epochs import at_epoch
from bayes_asr.config.explain import explain
from bayes_asr.config.inputs import StreamConfig
from bayes_asr.config.merge import load, load_section
from bayes_asr.config.schema import Config, differences

TWO = ["data.train.streams={fbank: [x, y], pitch: z}"]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_sections_lack_nothing_and_come_in_the_order_of_their_names() -> None:
    config = load([], [*TWO, "streams.pitch.deltas=2", "streams={fbank: {subsampling: -2}}"])
    plain = {"cmvn": "none", "deltas": 0, "left_context": 0, "right_context": 0}
    assert list(config.streams) == ["fbank", "pitch"]
    assert config.streams["fbank"] == StreamConfig(**plain, subsampling=-2)
    assert config.streams["pitch"] == StreamConfig(**{**plain, "deltas": 2}, subsampling=1)
    assert config.data.train.streams == {"fbank": ("x", "y"), "pitch": ("z",)}
    assert load([]).streams == {}


def test_later_files_add_names_and_null_takes_one_out(tmp_path: Path) -> None:
    first = written(
        tmp_path / "a.yaml",
        "data: {train: {streams: {fbank: [x]}}}\nstreams: {fbank: {deltas: 1, cmvn: mean}}\n",
    )
    (tmp_path / "own").mkdir()
    second = written(
        tmp_path / "own" / "b.yaml",
        "data.train.streams: {pitch: [z]}\nstreams: {fbank: {deltas: 2}}\n",
    )
    config = load([first, second])
    assert list(config.data.train.streams) == ["fbank", "pitch"]
    assert (config.streams["fbank"].deltas, config.streams["fbank"].cmvn) == (2, "mean")
    less = ["data.train.streams.fbank=null", "streams.fbank=null"]
    assert list(load([first, second], less).data.train.streams) == ["pitch"]
    third = written(tmp_path / "c.yaml", "streams: {fbank: null}\ndata.train.streams.fbank: null\n")
    assert not load([first, third]).streams
    assert describe_changes([first, second]) == [
        f"{second} changes what the recipe {tmp_path.name} sets: streams.fbank.deltas 1 -> 2"
    ]
    assert describe_changes([first, third]) == []


def test_a_schedule_is_one_and_an_empty_mapping_empties(tmp_path: Path) -> None:
    recipe = written(
        tmp_path / "recipe.yaml",
        "model.dropout: {1: 0.4, 9: 0.1}\ntrain: {max_frames: {1: 100, 5: 0},"
        " schedule: list, learning_rates: {1: 4e-4, 11: 2e-4}, target_weights: {a: 1}}\n",
    )
    own = written(tmp_path / "own.yaml", "train.learning_rates: {1: 1e-3, 5: 1e-4}\n")
    config = load([recipe, own], ["model.dropout={1: 0.3}", "train.max_frames.9=300"])
    assert config.train.learning_rates == {1: 1e-3, 5: 1e-4}
    assert config.model.dropout == {1: 0.3}
    assert config.train.max_frames == {1: 100, 5: 0, 9: 300}
    empty = ["train.schedule=newbob", "train.learning_rates={}", "train.target_weights={}"]
    config = load([recipe], empty)
    assert (config.train.learning_rates, config.train.target_weights) == ({}, {})
    assert load([recipe], ["train.learning_rates.1=1e-3"]).train.learning_rates == {
        1: 1e-3,
        11: 2e-4,
    }
    anew = ["train.target_weights={}", "train.target_weights.b=2"]
    assert load([recipe], anew).train.target_weights == {"b": 2.0}
    assert load([recipe], ["model.units=7", "model={}"]).model.units == 7


def test_later_settings_win_over_earlier_ones_of_their_counterpart() -> None:
    """As those that a user gives run.sh stand behind its own."""
    first, both = "data.train.features=[a]", "data.train.features_all_of=[b,c]"
    assert load([], [first, both]).data.train.features_all_of == ("b", "c")
    assert load([], [first, both]).data.train.features == ()
    synonym = "data.train.features_first_of=[d]"
    assert load([], [synonym, first]).data.train.features == ("a",)
    assert load([], [first, synonym]).data.train.features == ("d",)


UNIT_FILES = sorted((CONF / "units").glob("*.yaml"))


@pytest.mark.parametrize("unit", UNIT_FILES, ids=lambda path: path.stem)
def test_a_unit_file_says_what_the_unit_is_whatever_it_lies_over(
    unit: Path, tmp_path: Path
) -> None:
    alone = load_section("model", [unit])
    choices = check_unit(alone.unit, {}).options
    last = {o: values[-1] for o, values in choices.items() if o != "dropped_candidate"}
    trains = {"activation_trains": list(PARAMETERS.get(last.get("activation", ""), ()))}
    own = written(
        tmp_path / "own.yaml", yaml.safe_dump({"model": {"unit": alone.unit, **last, **trains}})
    )
    for other in (own, *UNIT_FILES):
        over = load_section("model", [other, unit])
        for option in ("unit", *UNIT_OPTIONS):
            assert getattr(over, option) == getattr(alone, option), (other, option)


def test_another_unit_does_not_have_the_options_of_the_one_before(tmp_path: Path) -> None:
    harmonic = written(tmp_path / "a.yaml", "model: {unit: lstm, peepholes: true, layers: 3}\n")
    model = load_section("model", [harmonic], ["model.unit=gru"])
    assert (model.peepholes, model.layers) == (False, 3)
    same = written(tmp_path / "b.yaml", "model: {unit: lstm, units: 7}\n")
    assert load_section("model", [harmonic, same]).peepholes
    for order in (1, -1):
        settings = ["model.unit=bru", "model.form=log"][::order]
        assert load_section("model", [harmonic], settings).form == "log"
    (tmp_path / "own").mkdir()
    gru = written(tmp_path / "own" / "c.yaml", "model.unit: gru\n")
    (change,) = describe_changes([harmonic, gru])
    assert change.startswith(f"{gru} changes")
    assert "model.peepholes True -> False" in change


def test_options_that_were_said_of_no_unit_are_of_the_one_that_is_named(tmp_path: Path) -> None:
    """Such as those of all systems of an experiment."""
    text = "model: {form: log}\nsystems: {a: {model.unit: li-bru}, b: {model.unit: bru}}\n"
    experiment = written(tmp_path / "e.yaml", text)
    forms = [load_section("model", [Path(f"{experiment}#{name}")]).form for name in "ab"]
    assert forms == ["log", "log"]


def test_names_with_dots_are_one_name_however_they_are_written(tmp_path: Path) -> None:
    file = written(tmp_path / "c.yaml", "train: {target_weights: {tri2.pdfs: 1, a: 2}}\n")
    nested = written(tmp_path / "d.yaml", "train: {target_weights: {tri2: {pdfs: 3}}}\n")
    labels = ["data.train.labels={tri2: [x], a: [y]}"]
    assert load([file], labels).train.target_weights == {"a": 2.0, "tri2.pdfs": 1.0}
    for later in (["train.target_weights.tri2.pdfs=3"], ["train.target_weights={tri2.pdfs: 3}"]):
        assert load([file], [*labels, *later]).train.target_weights["tri2.pdfs"] == 3.0
    assert load([file, nested], labels).train.target_weights["tri2.pdfs"] == 3.0
    assert load([nested, file], labels).train.target_weights["tri2.pdfs"] == 1.0


def test_saved_form_comes_back_and_differences_have_names(tmp_path: Path) -> None:
    config = load([], [*TWO, "streams.pitch.subsampling=utterance"])
    config.save(tmp_path / "saved.yaml")
    assert load([tmp_path / "saved.yaml"]) == config
    assert differences(load([]), config) == {
        "data.train.streams.fbank": (None, ["x", "y"]),
        "data.train.streams.pitch": (None, ["z"]),
        **{
            f"streams.{name}.{key}": (None, value)
            for name, stream in config.streams.items()
            for key, value in vars(stream).items()
        },
    }


def test_explain_finds_keys_with_names_of_ones_own() -> None:
    assert explain("streams.fbank.deltas") == explain("streams.NAME.deltas")
    assert "-2: two for one" in explain("streams.fbank.subsampling")
    assert "a whole number between -100 and 100 or one of utterance" in explain("streams")
    assert explain("streams.fbank") == explain("streams.NAME")
    assert explain("train.layers.rnn") == explain("train.layers.NAME")
    said = explain("data.train.streams.fbank")
    assert said == explain("data.train.streams")
    assert "a mapping of names, each of it a list, each of it text; default {}" in said
    assert "between 0 and 100; default {}" in explain("train.target_weights.tri2.pdfs")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("streams.fbank.delta=1", r"no key streams.fbank.delta; did you mean streams.fbank.deltas"),
        ("streams.fbank.subsampling=0", r"streams.fbank.subsampling is 0; it must be 1 for the"),
        ("streams.fbank.subsampling=101", r"fbank.subsampling is 101; it must be a whole number"),
        ("streams.fbank.subsampling=uterance", r"is 'uterance'.*did you mean utterance\?"),
        ("streams.fbank={subsampling: utterance, deltas: 1}", r"nothing is before or after one"),
        ("streams.fbk.deltas=1", r"streams.fbk is of no stream of .*; did you mean fbank\?"),
        ("streams.fbank=3", r"streams.fbank is a section of keys, not 3"),
        ("streams=3", r"streams is 3; it must be a mapping of names to values"),
        ("data.train.streams=null", r"streams is None; it must be a mapping of names"),
        ("data.train.streams.features=x", r"streams.features has a name that is taken or not of"),
        ("data.train.streams={a b: x}", r"data.train.streams.a b has a name that is taken or not"),
        ("data.train.labels.pdfs=x", r"data.train.labels.pdfs has a name that is taken"),
        ("data.dev.streams.fban=x", r"streams.fban is not in data.train.streams; did you mean fb"),
        ("data.test.labels.x=y", r"there is no key data.test.labels"),
        ("data.train.streams_all_of.fbank=x", r"fbank takes directories together, but .*to null"),
        ("train.target_weights.tri2.pdfs=101", r"tri2.pdfs is 101; it must be a number between 0"),
        ("train.target_weights.pdfs=2", r"target_weights.pdfs is not to be set: that loss counts"),
    ],
)
def test_wrong_names_and_values_are_refused_where_they_are_written(
    setting: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        load([], [*TWO, setting])
    if "a b" not in setting:
        assert str(raised.value).startswith(f"--set {setting}: ")


def test_a_wrong_value_in_a_file_is_told_by_its_line(tmp_path: Path) -> None:
    file = written(tmp_path / "c.yaml", "streams:\n  fbank:\n    deltas: 7\n")
    with pytest.raises(InputError, match=r"c.yaml, line 3: streams.fbank.deltas is 7; it must be"):
        load([file], TWO)


def test_configurations_of_one_stream_are_what_they_were() -> None:
    config: Config = load([])
    assert config.data.train.stream_names == config.data.dev.label_names == []
    assert config.train.target_weights == {}


def test_values_by_epoch_are_in_order_and_come_back_from_their_saved_form(tmp_path: Path) -> None:
    first = written(tmp_path / "a.yaml", "train: {batch_sequences: {10: 4, 2: 16, 1: 8}}\n")
    config = load([first], ["train.batch_sequences.10=null", "train.max_frames={1: 100, 3: 0}"])
    assert list(config.train.batch_sequences.items()) == [(1, 8), (2, 16)]
    config.save(tmp_path / "saved.yaml")
    assert load([tmp_path / "saved.yaml"]) == config
    plain = load([first], ["train.batch_sequences=5"])
    assert plain.train.batch_sequences == 5
    assert differences(plain, config) == {
        "train.batch_sequences": (5, None),
        "train.batch_sequences.1": (None, 8),
        "train.batch_sequences.2": (None, 16),
        "train.max_frames": (0, None),
        "train.max_frames.1": (None, 100),
        "train.max_frames.3": (None, 0),
    }
    assert [at_epoch(config.train.max_frames, epoch) for epoch in (1, 2, 3, 9)] == [100, 100, 0, 0]
    assert "or a mapping of epochs, each of it a whole number" in explain("train.batch_sequences")


def test_dropout_by_epoch_is_of_units_of_kinds_and_of_layers_of_a_stack(tmp_path: Path) -> None:
    text = "model: {stack: [{name: a, kind: mlp, dropout: {1: 0.1, 3: 0}}, {name: b, kind: mlp}]}\n"
    first = written(tmp_path / "a.yaml", text)
    settings = ["model.dropout={1: 0.2, 2: 0.1}", "model.kinds.mlp.dropout={4: 0.3, 1: 0}"]
    config = load([first], [*settings, "model.input_dropout.1=0"])
    assert config.model.dropout == {1: 0.2, 2: 0.1}
    assert config.model.input_dropout == {1: 0.0}
    given, left = (layer.options["dropout"] for layer in config.model.read_stack())
    assert (given, left) == ({1: 0.1, 3: 0.0}, {1: 0.0, 4: 0.3})
    config.save(tmp_path / "saved.yaml")
    assert load([tmp_path / "saved.yaml"]) == config


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.dropout={2: 0.1}", "model.dropout says nothing of epoch 1; begin with it"),
        ("model.dropout={}", "model.dropout says nothing of epoch 1"),
        ("model.input_dropout={3: 0.1}", "model.input_dropout says nothing of epoch 1"),
        ("model.dropout={1: 0.96}", r"model.dropout.1 is 0.96; it must be a number between 0 and"),
        ("model.dropout={x: 0.1}", "model.dropout names x; it must be a whole number"),
        ("model.kinds.dropout.dropout={2: 0}", "model.kinds.dropout.dropout says nothing of epoch"),
        ("model.decoder.dropout={1: 0.1}", "model.decoder.dropout is one value"),
        ("train.max_frames={}", "train.max_frames says nothing of epoch 1"),
        (
            "model.stack=[{name: a, kind: mlp, dropout: {2: 0.1}}]",
            r"model.stack layer a \(mlp\): dropout says nothing of epoch 1",
        ),
        (
            "model.stack=[{name: a, kind: recurrent, input_dropout: {2: 0.1}}]",
            r"model.stack layer a \(recurrent\): input_dropout says nothing of epoch 1",
        ),
        (
            "model.stack=[{name: a, kind: conv1d, dropout: {1.5: 0.1}}]",
            r"layer a \(conv1d\): dropout is \{1.5: 0.1\}; it must be .* or a mapping of epochs",
        ),
    ],
)
def test_bad_values_by_epoch_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load([], [setting])


def test_lists_of_sections_have_defaults_and_come_back_from_their_saved_form(
    tmp_path: Path,
) -> None:
    text = "train:\n  init_from:\n    - {run: a}\n    - {run: b, layers: {x.y: z}}\n"
    config = load([written(tmp_path / "a.yaml", text)])
    first, second = config.train.init_from
    assert (first.run, first.layers, first.normalisation) == ("a", {}, "data")
    assert second.layers == {"x.y": "z"}
    config.save(tmp_path / "saved.yaml")
    assert load([tmp_path / "saved.yaml"]) == config


def test_sections_of_names_with_dots() -> None:
    settings = ["train.layers={tri2.pdfs: {optimizer: sgd}, pdfs: {frozen_epochs: all}}"]
    layers = load([], [*settings, "train.layers.tri2.pdfs.frozen_epochs=2"]).train.layers
    assert (layers["tri2.pdfs"].optimizer, layers["tri2.pdfs"].frozen_epochs) == ("sgd", 2)
    assert layers["pdfs"].frozen_epochs == "all"
    assert layers["pdfs"].learning_rate_factor == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_sequences: {1: 0}", r"c.yaml, line 2: train.batch_sequences.1 is 0; it must be"),
        ("batch_sequences: {x: 1}", r"line 2: train.batch_sequences names x; it must be a whole"),
        ("batch_sequences: {0: 1}", r"train.batch_sequences names 0; it must be a whole number"),
        ("batch_sequences: [1]", r"train.batch_sequences is \[1\]; it must be a whole number"),
        ("layers: {pdfs: 3}", r"train.layers.pdfs is a section of keys, not 3"),
        ("layers: 3", r"train.layers is 3; it must be a mapping of names"),
        ("init_from: [a]", r"line 2: train.init_from.1 is a section of keys, not 'a'"),
        ("init_from: [{run: 3}]", r"line 2: train.init_from.1.run is 3; it must be text"),
        (
            "init_from: [{run: a, normalization: run}]",
            r"no key train.init_from.1.normalization; known: run, .*did you mean normalisation\?",
        ),
        ("spec_augment: {time_mask: 1}", r"train.spec_augment.time_mask; did you mean .*masks\?"),
        (
            "spec_augment: {frequency_streams: [feature]}",
            r"frequency_streams has feature, .*; there are features; did you mean features\?",
        ),
        ("layers: {pdfs: {optimizer: sdg}}", r"pdfs.optimizer is 'sdg'.*did you mean sgd\?"),
    ],
)
def test_what_a_training_cannot_be_told_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load([written(tmp_path / "c.yaml", f"train:\n  {text}\n")])


def test_key_without_its_section_is_looked_for_at_the_top_first() -> None:
    with pytest.raises(InputError, match=r"did you mean model\.unit\?"):
        explain("unit")
