"""A trained network in the forms that other programs run: ONNX, torch.export, TorchScript."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from bayes_asr import __version__
from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.installed import install_command
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.decode.forward.exportable import ExportableNetwork
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.decode.search.search_record import Record

NEEDED = ("onnx", "onnxscript", "onnxruntime")
EXAMPLE = 11  # frames that are traced; the length stays open
OLDEST_TORCH = "2.8"  # the first that translates loops over frames into ONNX
NO_RECORD: Record = MappingProxyType({})  # of a network of no run


def export_onnx(
    network: LogLikelihoods,
    path: Path,
    *,
    step: bool = False,
    quantize: bool = False,
    record: Record = NO_RECORD,
) -> None:
    """Write an ONNX model of opset 20 with what it must be given in its metadata.

    Input `features` [frames, F], output `loglikes` [frames, P], float32; a network of several
    streams has one input for each, named as it. step: the next frames of an utterance; further
    inputs `begins` (bool []) and `state1`, ... [1, 1, H], further outputs
    `next_state1`, ...; InputError where the network looks ahead. quantize: weights in 8 bits.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)}: not installed: {install_command('export')}")
    import onnx

    model = _translate(network, step=step, exact_head=not quantize)
    if quantize:
        model = _quantize(model)
        _check_runs(model)
    _name_frames(model.graph)
    _forget_sources(model.graph)
    model.producer_name, model.producer_version = "bayes_asr", __version__
    onnx.helper.set_model_props(
        model, {**describe(network, step=step, quantize=quantize), **record}
    )
    _write(model.SerializeToString(), path)


def _translate(network: LogLikelihoods, *, step: bool, exact_head: bool) -> Any:
    """The ONNX model of a network as torch makes it."""
    program = export_program(network, step=step, exact_head=exact_head)
    states = [f"state{n}" for n in range(1, 1 + len(_list_states(network)))] if step else []
    with _quiet():
        converted = torch.onnx.export(
            program,
            verbose=False,
            input_names=[*network.front_ends, *(["begins"] if step else []), *states],
            output_names=["loglikes", *(f"next_{name}" for name in states)],
            custom_translation_table=_stable_equations(),
            opset_version=20,
        )
        converted = cast(torch.onnx.ONNXProgram, converted)
        converted.optimize()  # once more, without what the first time has left unused
        return converted.model_proto


def export_torch(
    network: LogLikelihoods,
    path: Path,
    *,
    step: bool = False,
    record: Record = NO_RECORD,
) -> None:
    """Write a program of torch.export, which `torch.export.load` reads."""
    program = export_program(network, step=step)
    extra = {"network.json": json.dumps({**describe(network, step=step), **record})}
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content, extra_files=extra)
    _write(content.getbuffer(), path)


def export_torchscript(network: LogLikelihoods, path: Path, *, record: Record = NO_RECORD) -> None:
    """Write a TorchScript module; InputError for a recurrent network."""
    plain = network.plain()
    extra = {"network.json": json.dumps({**describe(network), **record})}
    content = io.BytesIO()
    with _quiet():
        traced = torch.jit.trace(plain, tuple(_examples(network)), check_trace=False)
        torch.jit.save(traced, content, _extra_files=extra)
    _write(content.getbuffer(), path)


def _write(content: bytes | memoryview, path: Path) -> None:
    """Write a file whole: the writers of torch end the process where the disk refuses one."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def export_program(
    network: LogLikelihoods, *, step: bool = False, exact_head: bool = True
) -> ExportedProgram:
    """Return the program of torch.export for any number of frames; exact_head: in double."""
    _require_torch()
    frames = {0: Dim("frames", min=1)}
    plain: ExportableNetwork = network.plain_step() if step else network.plain()
    plain.exact_head = exact_head
    examples = _examples(network, step=step)
    further = [frames] * (len(examples) - 1)
    example: tuple[Any, ...] = tuple(examples)
    shapes: tuple[Any, ...] = (frames, tuple(further)) if further else (frames,)
    if step:
        states = [torch.zeros_like(state) for state in _list_states(plain)]
        example = (examples if further else examples[0], torch.tensor(True), states)
        shapes = ([frames, *further] if further else frames, None, [None] * len(states))
    with _quiet():
        return torch.export.export(plain, example, dynamic_shapes=shapes)


def _require_torch() -> None:
    """Refuse a torch that is too old; builds on the way to the oldest one will do."""
    if torch.__version__ < f"{OLDEST_TORCH}.dev0":
        raise InputError(
            f"torch {torch.__version__} cannot write networks as ONNX or torch.export: "
            f"torch {OLDEST_TORCH} or newer is needed; --torchscript writes those without "
            "recurrent layers"
        )


def describe(
    network: LogLikelihoods, *, step: bool = False, quantize: bool = False
) -> dict[str, str]:
    """The metadata of a program: its inputs and outputs, and the network that it is of."""
    streams = {
        name: {"features": _width(end, step=step), "front_end": _describe_front_end(end)}
        for name, end in network.front_ends.items()
    }
    main = next(iter(streams.values()))
    layers = network.model.architecture["layers"]
    units = dict.fromkeys(str(layer.get("unit", layer["kind"])) for layer in layers)
    states = _list_states(network) if step else []
    return {
        "bayes_asr": __version__,
        "unit": ", ".join(units),
        "layers": json.dumps([layer.get("units", layer["kind"]) for layer in layers]),
        "features": str(main["features"]),
        "pdfs": str(len(network.log_priors)),
        "front_end": json.dumps(main["front_end"]),
        **({"streams": json.dumps(streams)} if len(streams) > 1 else {}),
        **({"states": json.dumps([list(state.shape) for state in states])} if step else {}),
        "form": "step" if step else "utterance",
        "weights": "int8" if quantize else "float32",
    }


def _list_states(network: ExportableNetwork | LogLikelihoods) -> list[Tensor]:
    """The states of a step before the first frame, of all layers in turn."""
    return [state for layer in network.model.begin() for state in layer]


def _examples(network: LogLikelihoods, *, step: bool = False) -> list[Tensor]:
    """Example inputs of each stream, for tracing."""
    ends = network.front_ends.values()
    return [torch.zeros(EXAMPLE, _width(front_end, step=step)) for front_end in ends]


def _width(front_end: FrontEnd, *, step: bool) -> int:
    """The width of the input of a stream."""
    if step or front_end.subsampling != 1:  # whose deltas and context the caller appends
        return front_end.size
    return front_end.stored_size


def _describe_front_end(front_end: FrontEnd) -> dict[str, Any]:
    return {k: v for k, v in front_end.content().items() if k not in ("mean", "deviation")}


def _stable_equations() -> dict[Any, Any]:
    """ONNX of functions for which torch's own translation overflows: it writes log(e^a + e^b)."""
    from onnxscript import opset20 as op

    def logsigmoid(a: Any) -> Any:
        return op.Neg(op.Softplus(op.Neg(a)))

    def logaddexp(a: Any, b: Any) -> Any:
        return op.Add(op.Max(a, b), op.Softplus(op.Neg(op.Abs(op.Sub(a, b)))))

    aten = torch.ops.aten
    return {aten.log_sigmoid.default: logsigmoid, aten.logaddexp.default: logaddexp}


def _quantize(model: Any) -> Any:
    """The model with weights of products in 8 bits; what they multiply is quantised as it comes."""
    import onnx
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as directory, _quiet():
        folded, path = Path(directory, "folded.onnx"), Path(directory, "int8.onnx")
        options = SessionOptions()  # recurrent weights become constants in the body of a loop
        options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        options.log_severity_level = 4  # what is wrong is raised too
        try:
            InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has a class of its own for a full disk
            message = " ".join(str(error).split())
            raise OSError(f"{folded}: cannot be written: {message}; free some space") from None
        quantize_dynamic(
            folded,
            path,
            per_channel=True,
            reduce_range=True,  # 7 bits: AVX2 without VNNI adds products in 16 bits, which overflow
            weight_type=QuantType.QInt8,
            extra_options={"EnableSubgraph": True},
        )
        return onnx.load(path)


def _check_runs(model: Any) -> None:
    """InputError where ONNX Runtime cannot compute a model, tried with frames of zeros."""
    from onnxruntime import InferenceSession

    types = {"tensor(float)": np.float32, "tensor(bool)": np.bool_}
    with _quiet():
        try:
            session = InferenceSession(model.SerializeToString())
            inputs = session.get_inputs()
            # The number of frames alone is open, and has a name in place of a size.
            shapes = [[n if isinstance(n, int) else 2 for n in each.shape] for each in inputs]
            zeros: dict[str, Any] = {
                each.name: np.zeros(shape, types[each.type])
                for each, shape in zip(inputs, shapes, strict=True)
            }
            session.run(None, zeros)
        except Exception as error:  # ONNX Runtime has classes of its own
            message = " ".join(str(error).split())
            raise InputError(
                f"ONNX Runtime cannot compute this network in 8 bits: {message}; leave out"
                " --quantize"
            ) from None


def _name_frames(graph: Any) -> None:
    """Call the open dimension by what it counts."""
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = "frames"


def _forget_sources(graph: Any) -> None:
    """Leave out which lines of Python, in which folders, each node is from."""
    for node in graph.node:
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _forget_sources(attribute.g)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what torch and ONNX Runtime say to their own developers."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
