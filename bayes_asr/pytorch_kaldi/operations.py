"""The language of `[model]`: one operation of two arguments on each line.

out_dnn1=compute(liGRU_layers,fmllr)
loss_final=cost_nll(out_dnn1,lab_cd)
"""

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from bayes_asr.base.errors import nearest
from bayes_asr.pytorch_kaldi.sections import Option

Kind = Literal[
    "compute",
    "concatenate",
    "cost_nll",
    "cost_err",
    "mult",
    "mult_constant",
    "sum",
    "sum_constant",
    "avg",
    "mse",
]
SECOND = {  # what the second argument is, where it is no value; the first of compute is a network
    "compute": "value",
    "cost_nll": "label",
    "cost_err": "label",
    "mult_constant": "constant",
    "sum_constant": "constant",
}
NEEDED = ("loss_final", "err_final")
# Operations do not nest: an argument has no parenthesis.
LINE = re.compile(r"(?P<result>\w+)\s*=\s*(?P<kind>\w+)\s*\((?P<arguments>[^()]*)\)")


@dataclass(frozen=True)
class Operation:
    """One line: `result` is what `kind` makes of its arguments.

    first: a value (a stream or an earlier result), or for `compute` the name of a network; second:
    a value, or a label; constant: instead of it, a number.
    """

    result: str
    kind: Kind
    first: str
    second: str
    constant: float
    line: int


def parse_operations(
    option: Option,
    networks: Collection[str],
    streams: Collection[str],
    labels: Collection[str],
) -> list[Operation]:
    """Read the lines of `model`; InputError for the first that names what is not there."""
    # A value may be read only below the line that makes it.
    values, operations = list(streams), list[Operation]()
    for line, text in option.lines:
        if not text:
            continue
        match = LINE.fullmatch(text)
        if not match:
            raise option.error(f"not NAME=OPERATION(A,B): {text[:60]}", line)
        arguments = [part.strip() for part in match["arguments"].split(",")]
        kind = _find(option, line, "operation", match["kind"], get_args(Kind))
        if len(arguments) != 2:
            raise option.error(f"{kind} has {len(arguments)} arguments, not 2", line)
        operand, second = arguments
        constant = math.nan
        if kind == "compute":
            _find(option, line, "network", operand, networks)
        else:
            _find(option, line, "stream or result", operand, values)
        role = SECOND.get(kind, "value")
        if role == "constant":
            constant, second = _read_number(option, line, second), ""
        else:
            among = labels if role == "label" else values
            what = "label" if role == "label" else "stream or result"
            _find(option, line, what, second, among)
        # A name stands for one value, or an order of lines would decide what it means.
        if match["result"] in values:
            raise option.error(f"{match['result']} is the name of two values", line)
        values.append(match["result"])
        operations.append(Operation(match["result"], kind, operand, second, constant, line))  # type: ignore[arg-type]
    for name in NEEDED:
        if name not in values:
            raise option.error(f"no line defines {name}")
    return operations


def _find(option: Option, line: int, what: str, name: str, choices: Iterable[str]) -> str:
    names = list(choices)
    if name not in names:
        raise option.error(
            f"no {what} is called {name}{nearest(name, names)}; known: {', '.join(names)}", line
        )
    return name


def _read_number(option: Option, line: int, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise option.error(f"{text} is not a finite number", line)
    return number
