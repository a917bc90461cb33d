"""An experiment of pytorch-kaldi as typed values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.pytorch_kaldi.architectures import (
    Architecture,
    drop_first_norm,
    read_architecture,
)
from bayes_asr.pytorch_kaldi.operations import Operation, parse_operations
from bayes_asr.pytorch_kaldi.sections import (
    Option,
    Section,
    parse_whole,
    read_sections,
)

Named = TypeVar("Named", "FeatureEntry", "LabelEntry", "DataSet", Architecture)
STREAM = ("fea_name", "fea_lst", "fea_opts", "cw_left", "cw_right")
LABELS = ("lab_name", "lab_folder", "lab_opts", "lab_count_file", "lab_data_folder", "lab_graph")
PHONES = "ali-to-phones"
NO_LABELS = "none"  # the name of labels that are not there


@dataclass(frozen=True)
class FeatureEntry:
    """Features of a set: a table (scp), the commands that they go through, and context."""

    name: str
    table: str
    commands: str
    left: int
    right: int
    line: int


@dataclass(frozen=True)
class LabelEntry:
    """Labels of a set: the fields of its block, by name (`LABELS`)."""

    fields: Mapping[str, str]
    line: int

    @property
    def name(self) -> str:
        """The name by which the operations refer to them."""
        return self.fields["lab_name"]

    @property
    def of_phones(self) -> bool:
        """Whether they are phones, not pdfs."""
        return self["lab_opts"].startswith(PHONES)

    def __getitem__(self, name: str) -> str:
        """The text of a field of the block; empty where it is not there."""
        return self.fields.get(name, "")


@dataclass(frozen=True)
class DataSet:
    """A set: streams and labels by name.

    blocks: all of `lab`, also those without labels, which have a graph.
    """

    name: str
    streams: Mapping[str, FeatureEntry]
    labels: Mapping[str, LabelEntry]
    blocks: tuple[LabelEntry, ...]
    section: Section


@dataclass(frozen=True)
class Experiment:
    """All of a configuration. train, valid, forward: names of sets; sections: as they stand."""

    path: Path
    sections: Mapping[str, Section]
    sets: Mapping[str, DataSet]
    train: tuple[str, ...]
    valid: tuple[str, ...]
    forward: tuple[str, ...]
    architectures: Mapping[str, Architecture]
    operations: Sequence[Operation]

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all sets that are trained on, validated on or forwarded, once each."""
        return tuple(dict.fromkeys((*self.train, *self.valid, *self.forward)))

    def reads_samples(self, stream: str) -> bool:
        """Whether a SincNet reads a stream, which then is sound."""
        return any(
            operation.kind == "compute"
            and operation.second == stream
            and self.architectures[operation.first].kind == "SincNet"
            for operation in self.operations
        )


def read_experiment(path: Path) -> Experiment:
    """Read a configuration; InputError naming the line of the first thing that is wrong."""
    sections = read_sections(path)
    for name in ("exp", "data_use", "batches", "model", "forward"):
        if name not in sections:
            raise InputError(f"{path}: there is no section [{name}]; is it of pytorch-kaldi?")
    sets = _index(
        map(_read_set, _list_numbered(sections, "dataset")),
        lambda item, problem: item.section.take("data_name").error(problem),
    )
    epochs = read_epochs(sections["exp"])
    architectures = [
        read_architecture(section, epochs) for section in _list_numbered(sections, "architecture")
    ]
    networks = _index(
        drop_first_norm(architectures),
        lambda item, problem: item.section.take("arch_name").error(problem),
    )
    use = sections["data_use"]
    train, valid, forward = (
        _read_names(use.take(f"{kind}_with"), sets) for kind in ("train", "valid", "forward")
    )
    # Operations name streams and labels, which all sets have under the same names.
    trained = sets[train[0]]
    operations = parse_operations(
        sections["model"].take("model"), networks, trained.streams, trained.labels
    )
    return Experiment(path, sections, sets, train, valid, forward, networks, operations)


def read_epochs(section: Section) -> int:
    """The number of epochs, of [exp]."""
    option = section.take("n_epochs_tr")
    return parse_whole(option, option.text, least=1)


def _index(items: Iterable[Named], error: Callable[[Named, str], InputError]) -> dict[str, Named]:
    """Things by name; InputError, made of a thing and the problem, for one that is there twice."""
    named: dict[str, Named] = {}
    for item in items:
        if item.name in named:
            raise error(item, f"{item.name} is the name of two; rename one of them")
        named[item.name] = item
    return named


def _list_numbered(sections: Mapping[str, Section], kind: str) -> list[Section]:
    numbered = [s for name, s in sections.items() if re.fullmatch(rf"{kind}\d+", name)]
    if not numbered:
        path = next(iter(sections.values())).path
        raise InputError(f"{path}: there is no section [{kind}1]")
    return numbered


def _read_names(option: Option, sets: Mapping[str, DataSet]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in option.text.split(","))
    for name in names:
        if name not in sets:
            raise option.error(f"no set is called {name}{nearest(name, sets)}")
        if names.count(name) > 1:
            raise option.error(f"{name} is there twice; write it once")
    return names


# --- sets


def _read_set(section: Section) -> DataSet:
    fea, lab = section.take("fea"), section.take("lab")
    streams = [
        FeatureEntry(
            fields["fea_name"],
            fields["fea_lst"],
            fields["fea_opts"],
            parse_whole(option, fields["cw_left"], line),
            parse_whole(option, fields["cw_right"], line),
            line,
        )
        for option, fields, line in _blocks(fea, STREAM, STREAM)
    ]
    labels = [LabelEntry(fields, line) for _, fields, line in _blocks(lab, LABELS, ("lab_name",))]
    return DataSet(
        section.take("data_name").text,
        _index(streams, lambda item, problem: fea.error(problem, item.line)),
        _index(
            (item for item in labels if item.name != NO_LABELS),
            lambda item, problem: lab.error(problem, item.line),
        ),
        tuple(labels),
        section,
    )


def _blocks(
    option: Option, names: Sequence[str], needed: Sequence[str]
) -> list[tuple[Option, dict[str, str], int]]:
    """The blocks of `fea` or `lab`, each of which begins with the first of `names`."""
    blocks = list[tuple[Option, dict[str, str], int]]()
    for line, text in option.lines:
        if not text:
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or name not in names:
            raise option.error(f"{name[:40]} is none of {', '.join(names)}", line)
        # The first name opens a block, as blocks have no other mark.
        if name == names[0]:
            blocks.append((option, {}, line))
        if not blocks:
            raise option.error(f"{name} stands before {names[0]}", line)
        if name in blocks[-1][1]:
            raise option.error(f"{name} is there twice in a block", line)
        blocks[-1][1][name] = value
    for _, fields, line in blocks:
        for name in needed:
            # Commands alone may be none.
            if not fields.get(name) and (name not in fields or name != "fea_opts"):
                raise option.error(f"{fields[names[0]]} has no {name}", line)
    return blocks
