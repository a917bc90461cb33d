"""Reading of the network of a run, also of one of version 0.1."""

from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.architecture import upgrade_architecture
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.combination import FILE as COMBINATION
from bayes_asr.train.runs.configuration import check_is_run, read_configuration
from bayes_asr.train.runs.trained_network import TrainedNetwork


def read_network(run: Path) -> TrainedNetwork:
    """The best network of a run; InputError where there is none, or it is not what it says."""
    check_is_run(run)
    if is_there(run / COMBINATION):
        raise InputError(
            f"{run}: combines the networks of other runs ({COMBINATION}); name one of these, or"
            " give it to forward, decode, score and report, or bayes_asr.load"
        )
    content = checkpoint.read(run / checkpoint.BEST)
    # A file of plain values that was changed by hand can fail in any of these ways.
    try:
        return TrainedNetwork.of_content(upgrade(content, run))
    except InputError:
        raise
    except (
        RuntimeError,
        TypeError,
        AttributeError,
        LookupError,
        ValueError,
        ArithmeticError,
    ) as error:
        raise InputError(
            f"{run / checkpoint.BEST}: does not hold the network that it describes"
            f" ({' '.join(str(error).split())[:100]}); train it again"
        ) from None


def upgrade(content: dict[str, Any], run: Path) -> dict[str, Any]:
    """Bring a checkpoint of `run` of version 0.1 to this version; {} stays.

    The front end was divided then: normalisation by speaker, deltas and context stood in the
    configuration alone.
    """
    if "front_ends" in content or not content:
        return content
    moved = ("mean", "deviation", "frontend")
    options = vars(read_configuration(run).features)
    front_end = {
        **options,
        "mean": content["mean"],
        "deviation": content["deviation"],
        "sound": content.get("frontend"),
    }
    return {
        **{key: value for key, value in content.items() if key not in moved},
        "architecture": upgrade_architecture(content["architecture"]),
        "front_ends": {FEATURES: front_end},
    }
