"""Numbers on the command line and in the configuration: each has a range, and holds to it."""

import argparse
import dataclasses
import json
import math
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main, read_arguments
from bayes_asr.cli.arguments import Number, key, repeat_set
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.explain import explain
from bayes_asr.config.merge import load
from bayes_asr.config.schema import iter_typed_keys
from bayes_asr.config.values import Within
from tests.attacks.extremes import COMMANDS, EXTREMES, numeric_keys, numeric_options, parser_of


@pytest.mark.parametrize("command", COMMANDS)
def test_every_number_of_a_command_has_a_range_that_help_shows(command: str) -> None:
    parser = parser_of(command)
    shown = " ".join(parser.format_help().split())
    for action in parser._actions:
        assert action.type not in (int, float), f"{command} {action.option_strings} has no range"
        if isinstance(action.type, Number):
            assert action.type.describe() in shown
            several = isinstance(action.default, list | tuple)
            for default in action.default if several else [action.default]:
                assert default is None or action.type.range.admits(default)
                assert type(default) is not str


def numbers_without_range(hint: Any) -> Iterator[Any]:
    """The `int` and `float` inside a type that no Annotated[..., Within] stands around."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (int, float):
        yield hint
    elif hint is Any:  # an option of a layer, which has its range by its kind
        return
    elif origin in (tuple, Union, types.UnionType, Mapping):
        for argument in arguments:
            yield from numbers_without_range(argument)
    elif origin is Annotated and arguments[0] in (int, float):
        assert isinstance(arguments[1], Within)
        assert math.isfinite(arguments[1].low)
        assert math.isfinite(arguments[1].high)
    else:
        assert dataclasses.is_dataclass(hint) or origin in (Literal, Annotated, None)


@pytest.mark.slow
def test_every_number_of_the_configuration_has_a_range_that_explain_shows() -> None:
    for name, hint in iter_typed_keys():
        assert list(numbers_without_range(hint)) == [], f"{name} has no range"
    for name in numeric_keys():
        assert re.search(r"between \S+ and \S+", explain(name)), name


def test_a_number_without_range_is_found() -> None:
    """The two tests above can fail."""
    assert list(numbers_without_range(tuple[int, ...] | None)) == [int]
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    assert [a.type for a in parser._actions if a.type in (int, float)] == [float]


OPTIONS = [(command, *option) for command in COMMANDS for option in numeric_options(command)]


@pytest.mark.parametrize(
    ("command", "option", "number"), OPTIONS, ids=lambda value: str(value)[:24]
)
def test_extreme_numbers_are_refused_in_one_line_or_in_range(
    command: str, option: str, number: Number, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parser_of(command)

    def refuse(text: str, parse: Callable[[list[str]], object], *words: str) -> None:
        with pytest.raises(SystemExit) as stopped:
            parse([*words, f"{option}={text}"])
        assert stopped.value.code == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert f"argument {option}: {text[:40]!r} is not {number.describe()}" in said

    refuse("a", main, *command.split())
    for text in EXTREMES:
        try:
            value = number(text)
        except argparse.ArgumentTypeError:
            refuse(text, parser.parse_args)
        else:
            assert math.isfinite(value)
            assert number.range.low <= value <= number.range.high


def complaint_about(name: str, text: str) -> str:
    """What loading says of a value; the name where it takes it."""
    try:
        load([], [f"{name}={text}"])
    except InputError as error:
        return str(error)
    return name


@pytest.mark.parametrize("name", numeric_keys())
def test_extreme_values_of_keys_are_refused_in_one_line_or_in_range(name: str) -> None:
    for text in EXTREMES:
        said = complaint_about(name, text)
        assert said.isprintable()
        assert name.partition(".")[0] in said


def test_keys_lend_their_ranges_to_options() -> None:
    assert key("decode.beam").range == key("decode.lattice_beam").range == Within(1e-3, 1e6)
    assert key("decode.lm_weights") == Number(float, Within(1e-3, 1e3))
    with pytest.raises(InputError, match="lattice_beam is 1e-45; it must be a number between"):
        SearchOptions(lattice_beam=1e-45)


def test_what_is_read_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A CTM took the place of the recording that it was made of."""
    sound, same = tmp_path / "a.wav", tmp_path / "b.wav"
    sound.write_bytes(b"RIFF")
    os.link(sound, same)
    (tmp_path / "folder").mkdir()
    for words in (
        ["transcribe", "run", "c.wav", str(sound), "--ctm", str(same)],
        ["transcribe", "run", str(sound), f"--rttm={tmp_path}/folder/../a.wav"],
        ["import-cfg", str(sound), "--out", str(sound)],
        ["lattice-posteriors", "--lattices", "x", str(sound), "--model", "m", "--out", str(same)],
        ["export", str(sound), "--archive", str(sound)],
    ):
        main(words)
        assert "is read here, and would be lost; name another" in capsys.readouterr().err
        assert sound.read_bytes() == b"RIFF"


def test_files_of_a_run_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export took the place of the network."""
    run, graph = tmp_path / "run", tmp_path / "graph"
    for file in (network := run / "best.pt", words := graph / "words.txt"):
        file.parent.mkdir()
        file.write_text("as it was")
    (tmp_path / "link").symlink_to(run)
    for command in (
        ["export", str(run), "--onnx", str(network)],
        ["export", str(run), "--archive", f"{tmp_path}/link/best.pt"],
        ["transcribe", str(run), "a.wav", "--graph", str(graph), "--ctm", str(words)],
    ):
        assert main(command) == 1
        assert "is read here, and would be lost; name another" in capsys.readouterr().err
    assert network.read_text() == words.read_text() == "as it was"
    (run / "best.onnx").touch()
    assert main(["export", str(run), "--onnx", str(run / "best.onnx")]) == 1
    assert "is read here" not in capsys.readouterr().err, "it may be written anew"


def test_a_file_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--ctm={tmp_path}/same", f"--rttm={tmp_path}/x/../same"]
    assert main(["transcribe", "run", "a.wav", *words]) == 1
    assert "named by --ctm and by --rttm; give each a file" in capsys.readouterr().err
    assert main(["transcribe", "run", "a.wav", "--ctm=/dev/null", "--rttm=/dev/null"]) == 1
    assert "named by" not in capsys.readouterr().err


def test_set_takes_several_settings() -> None:
    words = ["train", "a.yaml", "--set", "seed=1", "b.c=2", "--out", "x", "--set=d.e=3", "f=4", "g"]
    assert repeat_set(words) == (
        [
            "train",
            "a.yaml",
            "--set",
            "seed=1",
            "--set",
            "b.c=2",
            "--out",
            "x",
            "--set=d.e=3",
            "--set",
            "f=4",
            "g",
        ]
    )
    assert repeat_set(["wer", "--ref", "a=b", "c=d"]) == ["wer", "--ref", "a=b", "c=d"]
    assert repeat_set(["x", "--set", "--set", "a=1"]) == ["x", "--set", "--set", "a=1"]


def test_configuration_of_several_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--set", "seed=7", "train.epochs=9"]) == 0
    printed = capsys.readouterr().out
    assert "seed: 7" in printed
    assert "epochs: 9" in printed
    assert main(["config", "--set", "seed=7", "train.epochz=9"]) == 1
    assert "no key train.epochz; did you mean train.epochs?" in capsys.readouterr().err


def test_explain_alone_lists_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()[::2]
    assert [line.partition(":")[0] for line in lines] == [name for name, _ in iter_typed_keys()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "invalid choice: 'trian'; did you mean train?"),
        (["scores"], "did you mean score?"),
        (["xyzzy"], "invalid choice: 'xyzzy'; bayes-asr --help lists what there is"),
        (["wer", "--reff=x", "--ref=x", "--hyp=x"], "arguments: --reff=x; did you mean --ref?"),
        (["wer", "--qqq", "--ref=x", "--hyp=x"], "arguments: --qqq; bayes-asr wer --help"),
        (["wer"], "bayes-asr wer: error: the following arguments are required: --ref, --hyp; "),
        (["g2p"], "bayes-asr g2p: error: the following arguments are required: LEXICON|MODEL; "),
        (["run"], "bayes-asr run: error: the following arguments are required: RECIPE; "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_slips_of_the_pen(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_dashes_before_the_verb_are_refused_or_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The argparse of Python 3.13 passes them over."""
    with pytest.raises(SystemExit) as stopped:
        main(["--", "wer"])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "invalid choice: '--'" in line or "required: --ref, --hyp; bayes-asr wer" in line


@pytest.mark.parametrize("name", ["model.pretrained", "train.lr", "model.lstm", "nonsense"])
def test_only_near_keys_are_suggested(name: str) -> None:
    with pytest.raises(InputError, match="bayes-asr config --explain lists all keys"):
        load([], [f"{name}=1"])


ANY_ORDER = {
    "align RUN --text T FILE --json": {"run": "RUN", "file": "FILE", "text": "T", "json": True},
    "align --text T RUN FILE": {"run": "RUN", "file": "FILE", "text": "T"},
    "transcribe RUN A --json B --ctm O -- -C": {"files": ["A", "B", "-C"], "json": True},
    "report A --out O B": {"runs": ["A", "B"], "out": "O"},
    "find RUN --on dev test word": {"on": ["dev", "test"], "phrases": ["word"]},
    "find RUN word --least 0.5 --on test word": {"on": ["test"], "phrases": ["word", "word"]},
    "decode --lmwt 3 4 --on dev RUN": {"run": "RUN", "on": "dev", "lmwt": [3, 4]},
    "run mini --nj 2": {"recipe": "mini", "options": ["--nj", "2"]},
}


@pytest.mark.parametrize("line", ANY_ORDER)
def test_arguments_and_options_stand_in_any_order(line: str) -> None:
    verb, *words = line.split()
    args, _ = read_arguments([verb, *words], verb)
    parsed = {name: getattr(args, name) for name in ANY_ORDER[line]}
    assert json.loads(json.dumps(parsed, default=str)) == ANY_ORDER[line]
