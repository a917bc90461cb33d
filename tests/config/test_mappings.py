"""Keys whose values go by names that the user chooses."""

from pathlib import Path

import pytest

from bayes_asr.config import Config, StreamConfig, differences, load
from bayes_asr.config.changes import describe_changes
from bayes_asr.config.explain import explain
from bayes_asr.errors import InputError

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
