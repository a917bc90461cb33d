"""Records of the network behind log-likelihoods and hypotheses, so that none passes for another.

They hold a hash of its content: a run that is copied or moved has the same network.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from bayes_asr.base.errors import InputError, printable
from bayes_asr.base.files import discard, is_there, replacing
from bayes_asr.base.log import LOGGER
from bayes_asr.data.corpus.index import content_hash, sample_file
from bayes_asr.decode.search.search_record import COUNTS, NETWORK, Record, has_other_network
from bayes_asr.kaldi_io.side_files import BEST, LAST, read_json, take
from bayes_asr.train.runs.combination import list_networks, read_combination

RECORD = "forward.json"  # beside loglikes.ark


def describe_network(run: Path) -> dict[str, str]:
    """The record of the network of a run, or of those that it combines; empty where one is gone."""
    combination = read_combination(run)
    networks = combination.runs if combination else [run]
    how = (combination.weights, combination.average, combination.head) if combination else ()
    try:
        # A checkpoint ends in the check sums of its tensors: a sample tells networks apart.
        samples = [part for network in networks for part in sample_file(network / BEST)]
    except OSError:  # nothing may need it any more
        return {}
    return {NETWORK: content_hash([repr(how).encode(), *samples])[:16]}


def describe_counts(counts: Path | None) -> dict[str, str]:
    """The entry of pdf counts that give the priors in place of those of training."""
    return {COUNTS: content_hash(sample_file(counts))[:16]} if counts else {}


def write_network_record(record: Record, folder: Path) -> None:
    """Write a record beside log-likelihoods; where nothing is known, remove an earlier one."""
    if not record:
        discard(folder / RECORD)
        return
    with replacing(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_network_record(archive: Path) -> dict[str, str]:
    """Read the record beside log-likelihoods; empty where there is none, as of version 0.2."""
    path = archive.parent / RECORD
    if not is_there(path):
        return {}
    try:
        record = read_json(path)
        entries = {NETWORK: take(record, NETWORK, "a text")}
        return entries | ({COUNTS: take(record, COUNTS, "a text")} if COUNTS in record else {})
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(
            f"{path}: not as bayes-asr forward writes it: {reason}; give forward again"
        ) from None


def check_network(run: Path, record: Record | None, of: Path, remedy: str) -> None:
    """InputError where the record of a file or folder is of another network than the run's."""
    if is_of_another(run, record):
        raise InputError(f"{of}: of another network than {run} has now; {remedy}")


def is_of_another(run: Path, record: Record | None) -> bool:
    """Whether a record is of another network than the run has now, as far as both are known.

    A run whose training has begun anew has another one, which is not there yet.
    """
    if record is None or NETWORK not in record:  # nothing to compare with
        return False
    begun_anew = any(map(_lacks_best, list_networks(run)))
    return begun_anew or has_other_network(record, describe_network(run))


def _lacks_best(run: Path) -> bool:
    """Whether a training has left a checkpoint, but no network that dev judges best."""
    return is_there(run / LAST) and not is_there(run / BEST)


def warn_of_another(run: Path, records: Iterable[Record | None]) -> None:
    """Say where scores of a run, which have these records, are of another network than it has."""
    if any(is_of_another(run, record) for record in records):
        LOGGER.warning(
            "%s: scores are of another network than the run has now; recognise and score again",
            printable(str(run)),
        )
