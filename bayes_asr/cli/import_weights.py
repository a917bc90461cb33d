"""bayes-asr import-weights: networks that pytorch-kaldi has saved, as a run."""

import argparse
import tempfile
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.base.programs import open_pipe
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from bayes_asr.kaldi_io.side_files import BEST, CONFIG
from bayes_asr.pytorch_kaldi.experiment import Experiment, read_experiment
from bayes_asr.pytorch_kaldi.networks import convert_networks
from bayes_asr.pytorch_kaldi.notes import OF_WEIGHTS
from bayes_asr.pytorch_kaldi.translation import Translation, translate, write_yaml
from bayes_asr.pytorch_kaldi.weights import check_there
from bayes_asr.train.imported_weights import write_imported_run

CFG = "conf.cfg"  # what theirs keeps in the folder of a training, above that of the files
OF_NETWORK = ("model.", "features.", "streams.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE.pkl", help="one of each network"
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory to write")
    parser.add_argument(
        "--cfg", type=Path, metavar="FILE.cfg", help=f"of the networks (default: their ../{CFG})"
    )
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.yaml",
        help="what import-cfg made of it (default: RUN/config.yaml, or made now); the later win",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument(
        "--counts",
        type=Path,
        metavar="FILE",
        help="how often each pdf occurs (default: theirs beside FILE.pkl, or counted)",
    )
    parser.add_argument("--allow-pipes", action="store_true", help="run commands in scp files")


def run(args: argparse.Namespace) -> None:
    """Write the run, and say what is not carried over."""
    if is_there(args.run / BEST):
        raise InputError(f"{args.run}: has a network ({BEST}); choose another folder")
    for file in args.files:
        check_there(file)  # before its folder is searched for what belongs to it
    # pytorch-kaldi keeps networks in exp_files, below the folder of the cfg.
    cfg = args.cfg or args.files[0].absolute().parent.parent / CFG
    if not is_there(cfg):
        raise InputError(f"{cfg}: not there; name that of the networks: --cfg FILE.cfg")
    experiment = read_experiment(cfg)
    translation = translate(experiment)
    if not translation.origins:
        raise InputError(f"{cfg}: no network here has its layers; bayes-asr import-cfg says why")
    states = convert_networks(translation.origins, args.files)
    config = _configure(args, cfg, translation)
    write_imported_run(
        config,
        args.run,
        states,
        args.files,
        epochs=translation.keys["train"]["epochs"],
        counts=args.counts or _find_counts(experiment, args.files[0].parent),
        open_pipe=open_pipe if args.allow_pipes else None,
    )
    for line in (*translation.of_network.lines(), *OF_WEIGHTS):
        print(printable(f"  {line}"))
    print(f"wrote {len(states)} layers and heads to {printable(str(args.run))}")


def _find_counts(experiment: Experiment, directory: Path) -> Path | None:
    """The file of counts that theirs has written beside its networks, which is said."""
    forward = experiment.sections["forward"]
    source, output = (
        forward.take(name).text.split(",")[0].strip()
        for name in ("normalize_with_counts_from", "forward_out")
    )
    # The cfg has a label; the conf.cfg that theirs writes has the file that it made for this.
    for name in (Path(source).name, f"forward_{output}_{source}.count"):
        if (counts := directory / name).is_file():
            LOGGER.info("priors: by the counts of %s", counts)
            return counts
    LOGGER.info("priors: by the training alignments, as %s has no counts of theirs", directory)
    return None


def _configure(args: argparse.Namespace, cfg: Path, translation: Translation) -> Config:
    """The configuration of the run; what of its network is not that of the cfg is said."""
    with tempfile.TemporaryDirectory() as scratch:
        # Read back from a file, so that both ways give a configuration with the same checks.
        translated = Path(scratch, f"{cfg.stem}.yaml")
        translated.write_text(write_yaml(cfg, translation), encoding="utf-8")
        recorded = args.run / CONFIG
        files = args.config or [recorded if is_there(recorded) else translated]
        try:
            config, reference = load(files, args.set), load([translated])
        except InputError as error:
            # Whoever reads the message finds the cfg there, and the file no more.
            where = f"{cfg}, as import-cfg writes it"
            raise InputError(str(error).replace(str(translated), where)) from None
    for key, (cfg_value, value) in differences(reference, config).items():
        if key.startswith(OF_NETWORK):
            LOGGER.warning("%s is %s here, and %s by %s", key, value, cfg_value, cfg)
    return config
