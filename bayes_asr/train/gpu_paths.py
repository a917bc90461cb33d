"""The path on which a GPU computes recurrences: the fastest of those that compute the same.

Before a training, each path of `GPU_PATHS` computes a few of its batches, loss and gradients,
without a step. Its outputs and gradients are compared with those of the eager path in float32.
"""

import gc
import statistics
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError, complaint
from bayes_asr.base.installed import install_command
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes import group
from bayes_asr.config.catalogue import GPU_PATHS
from bayes_asr.nn.criteria import Criterion
from bayes_asr.nn.kernels.cuda.capture import workspace
from bayes_asr.nn.network import AcousticModel
from bayes_asr.train.batch import Batch
from bayes_asr.train.step import compute_outputs
from bayes_asr.train.trainer import Trainer

EAGER = "eager"
TOLERANCE = 1e-2  # of the norm of outputs or of a gradient; where ReLU turns at 0, 1e-3 was seen
LEAST_NORM = 1e-2  # of the norm of all gradients: to that, smaller ones are compared
POOL = "all_reduce"  # attribute of modules that add statistics up over processes (`BatchNorm`)
LONGEST_FAULT = 160  # characters of a message
REPEATS = 3  # of all batches, of which the median is the speed


class Rehearsal:
    """Batches of a training that are computed on any path, and leave the network as it is.

    bfloat16: as of `Step`; clock: seconds.
    """

    def __init__(
        self,
        model: AcousticModel,
        criterion: Criterion,
        batches: Sequence[Batch],
        *,
        bfloat16: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model, self._criterion, self._batches = model, criterion, batches
        self._bfloat16, self._clock = bfloat16, clock
        self._statistics = [(buffer, buffer.clone()) for buffer in model.buffers()]

    def try_paths(self, paths: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Frames per second of the eager path and of those that compute the same, and why each of
        the others does not.

        Rounding to bfloat16 moves gradients by more than the tolerance: a path may differ from
        float32 by twice as much as the eager path does. InputError where a path breaks the device.
        """
        speeds, faults = dict[str, float](), dict[str, str]()
        with _leaving_no_trace(self._model):
            with self._noting_faults(EAGER, faults):
                exact = self._compute_exactly()
                bound = TOLERANCE + 2 * self._differ(EAGER, exact)
                speeds[EAGER] = self._measure_speed(EAGER)
            for path in paths if speeds else ():
                with self._noting_faults(path, faults):
                    difference = self._differ(path, exact)
                    if difference <= bound:  # never of NaN
                        speeds[path] = self._measure_speed(path)
                    else:
                        faults[path] = f"differs by {difference:.2g}, more than {bound:.2g}"
        return speeds, faults

    @contextmanager
    def _noting_faults(self, path: str, faults: dict[str, str]) -> Iterator[None]:
        """Note what a path raises; InputError where it ended all work on the device."""
        try:
            yield
        except Exception as error:  # whatever compilers and drivers may raise
            faults[path] = _shorten(error)
            try:
                _synchronize(self._batches[0].device)
            except RuntimeError:  # as behind a bad address
                raise InputError(
                    f"GPU path {path} broke the GPU for this process: {faults[path]}; set"
                    " train.gpu_path to eager, or to another path"
                ) from error
        _free_memory(self._batches[0].device)

    def _compute_exactly(self) -> list[list[Tensor]]:
        """Results of the eager path for each batch, all factors in float32 as they are."""
        set_path(self._model, EAGER)
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                return [self._compute(batch, bfloat16=False) for batch in self._batches]
        finally:
            torch.set_float32_matmul_precision(precision)

    def _differ(self, path: str, exact: Sequence[Sequence[Tensor]]) -> float:
        """The largest relative difference of outputs and gradients; NaN where one is not finite."""
        set_path(self._model, path)
        differences = []
        for batch, expected in zip(self._batches, exact, strict=True):
            values = self._compute(batch, bfloat16=self._bfloat16)
            heads = len(self._model.outputs)
            for part in (slice(heads), slice(heads, None)):
                norms = torch.stack([x.norm() for x in expected[part]])
                least = LEAST_NORM * norms.square().sum().sqrt()
                pairs = zip(values[part], expected[part], strict=True)
                errors = torch.stack([(x - y).norm() for x, y in pairs])
                scales = torch.maximum(norms, least).clamp(min=torch.finfo(norms.dtype).tiny)
                differences.append((errors / scales).max())
        return float(torch.stack(differences).max())

    def _compute(self, batch: Batch, *, bfloat16: bool) -> list[Tensor]:
        """Outputs of the heads, and gradients of the parameters that have one."""
        trained = [p for p in self._model.parameters() if p.requires_grad]
        try:
            outputs = compute_outputs(self._model, batch, training=True, bfloat16=bfloat16)
            objective = self._criterion(outputs, batch.targets, batch.num_labels).objective
            gradients = torch.autograd.grad(objective, trained, allow_unused=True)
        finally:  # running statistics have moved, on which outputs may depend
            for buffer, saved in self._statistics:
                buffer.copy_(saved)
        computed = (*outputs.values(), *(g for g in gradients if g is not None))
        return [x.detach().float() for x in computed]

    def _measure_speed(self, path: str) -> float:
        """Frames per second."""
        set_path(self._model, path)
        durations = []
        for _ in range(REPEATS):
            begin = self._read_clock()
            for batch in self._batches:
                self._compute(batch, bfloat16=self._bfloat16)
            durations.append(self._read_clock() - begin)
        return sum(batch.frames.count for batch in self._batches) / statistics.median(durations)

    def _read_clock(self) -> float:
        _synchronize(self._batches[0].device)
        return self._clock()


def take_path(
    trainer: Trainer,
    card: str,
    recorded: Mapping[str, Any] | None,
    load: Callable[[], Sequence[Batch]],
) -> Mapping[str, Any]:
    """Choose the path of `train.gpu_path` (`choose_path`), and set it in all processes.

    load: loads the batches of the rehearsal.
    """

    def rehearse() -> Rehearsal:
        bfloat16 = trainer.precision == "bfloat16"
        return Rehearsal(trainer.model, trainer.criterion, load(), bfloat16=bfloat16)

    setting, model = trainer.options.gpu_path, trainer.model
    entry = group.broadcast(lambda: choose_path(setting, model, card, recorded, rehearse))
    set_path(model, entry["path"])
    return entry


def choose_path(
    setting: str,
    model: AcousticModel,
    card: str,
    recorded: Mapping[str, Any] | None,
    rehearse: Callable[[], Rehearsal],
) -> Mapping[str, Any]:
    """The path of a training, with its card and what was measured, as `env.json` keeps it.

    setting: `train.gpu_path`; card: the name of the GPU; recorded: what this returned when the run
    was begun, if it was. InputError where that path computes nothing of this network.
    """
    if setting != "auto":
        _check_computes(setting, model)
        return {"path": setting, "card": card}
    paths, faults = _find_paths(model)
    if recorded and recorded.get("frames_per_second"):  # else it was not measured
        path, measured_on = recorded["path"], recorded["card"]
        if measured_on == card and path in (EAGER, *paths):
            LOGGER.info("GPU path %s, as was measured when this run was begun", path)
            return recorded
        if measured_on != card:
            LOGGER.info("GPU path %s was measured on %s, and this is %s", path, measured_on, card)
    speeds = dict[str, float]()
    if paths:
        speeds, further = rehearse().try_paths(paths)
        faults |= further
    path = max(speeds, key=speeds.__getitem__, default=EAGER)
    if paths or faults:
        LOGGER.info("GPU path %s%s", path, _describe(speeds, faults))
    rounded = {name: round(speed) for name, speed in speeds.items()}
    return {"path": path, "card": card, "frames_per_second": rounded, "left_out": faults}


def set_path(model: AcousticModel, path: str) -> None:
    """Compute the recurrences of a network on a path."""
    for layer in _recurrences(model):
        layer.path = path


def _describe(speeds: Mapping[str, float], faults: Mapping[str, str]) -> str:
    """The figures of the paths, the fastest first, and what is wrong with the others."""
    ordered = sorted(speeds.items(), key=lambda item: -item[1])
    figures = ", ".join(f"{name} {speed:.0f}" for name, speed in ordered)
    reasons = "; ".join(f"{name} ({fault})" for name, fault in faults.items())
    return (f": frames/s {figures}" if figures else "") + (
        f"; left out: {reasons}" if reasons else ""
    )


def _shorten(error: Exception) -> str:
    """The begin of a message, which of compilers and drivers has many lines."""
    return textwrap.shorten(complaint(error), LONGEST_FAULT, placeholder=" ...")


def _find_paths(model: AcousticModel) -> tuple[list[str], dict[str, str]]:
    """The paths that have code of their own for a recurrence, and the faults of those that cannot
    run here.
    """
    paths, faults = list[str](), dict[str, str]()
    for path in GPU_PATHS if _recurrences(model) else ():
        try:
            if _computes(model, path):
                paths.append(path)
        except Exception as error:  # of a package that is not there, or does not fit
            faults[path] = _shorten(error)
    return paths, faults


def _computes(model: AcousticModel, path: str) -> bool:
    """Whether a path has other code for a recurrence than the eager one."""
    return any(layer.runs_on(path) for layer in _recurrences(model))


def _check_computes(path: str, model: AcousticModel) -> None:
    """InputError where a path computes nothing of a network."""
    try:
        computes = path == EAGER or _computes(model, path)
    except Exception as error:
        install = f"{install_command('gpu')}, or " if isinstance(error, ImportError) else ""
        raise InputError(
            f"train.gpu_path is {path}, which does not run here: {_shorten(error)}; {install}set"
            " it to auto"
        ) from error
    if not computes:
        raise InputError(
            f"train.gpu_path is {path}, which computes no recurrence of this network; set it to"
            " auto"
        )


def _recurrences(model: AcousticModel) -> list[Any]:
    """The layers of a network that have a recurrence."""
    return [layer for layer in model.layers if layer.unrolled]


@contextmanager
def _leaving_no_trace(model: nn.Module) -> Iterator[None]:
    """Compute as in training, by this process alone, then put back what that has changed."""
    # Statistics are not pooled: other processes take no part.
    pooling = [(vars(m), vars(m).pop(POOL)) for m in model.modules() if POOL in vars(m)]
    training, device = model.training, next(model.parameters()).device
    model.train()
    try:
        with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []):
            yield
    finally:
        model.train(training)
        for attributes, all_reduce in pooling:
            attributes[POOL] = all_reduce


def _synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free_memory(device: torch.device) -> None:
    """Free what a path has allocated, as the buffers of its graphs."""
    _synchronize(device)  # no graph may end while it runs
    workspace.cache_clear()
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
