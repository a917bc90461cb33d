"""One function over many items by the jobs of a cluster: each keeps a share, one process gathers.

A shard is a zip archive with an entry for each of its items. It appears when it is complete, and
says which inputs and options it was made of.
"""

import io
import itertools
import json
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from zipfile import BadZipFile, ZipFile

from bayes_asr.base import safe_pickle
from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.jobs import JOB, read_last_line, run_array
from bayes_asr.base.log import LOGGER

Input = TypeVar("Input")
Output = TypeVar("Output")
# What reading a zip archive, JSON or a pickle that is damaged, or none, may raise.
DAMAGE = (BadZipFile, zlib.error, *safe_pickle.DAMAGE)
MOST_NAMED = 5  # lost shards in a message

safe_pickle.loadable(InputError)  # some functions return it, so that all utterances are tried


class Mapper(Protocol):
    """A parallel map: applies a function to many named items, in order."""

    def __call__(
        self, function: Callable[[str, Input], Output], items: Iterable[tuple[str, Input]]
    ) -> Iterator[Output]:
        """Yield function(name, item) in order; what it returns must pickle."""


class ShardWrittenError(Exception):
    """A shard is complete: nothing is left to do for this process."""


@dataclass(frozen=True)
class Shard:
    """The share of one job: of every `count` items the `number`-th, from 1.

    directory: where the shards are kept; inputs: a hash of all that the results depend on.
    """

    directory: Path
    number: int
    count: int
    inputs: str

    @property
    def path(self) -> Path:
        """The file of the results."""
        return self.directory / f"{self.number}of{self.count}.zip"

    def __call__(
        self, function: Callable[[str, Input], Output], items: Iterable[tuple[str, Input]]
    ) -> NoReturn:
        """Keep the results of this share, unless they are; always raises ShardWrittenError."""
        if self.read_total() is not None:
            raise ShardWrittenError
        total = 0
        # All items pass through every job, since only their order tells whose they are.
        with replacing(self.path) as temporary, ZipFile(temporary, "w") as file:
            for total, (name, item) in enumerate(items, 1):
                # Items go to the shards in turn, so that long ones are spread.
                if (total - self.number) % self.count == 0:
                    file.writestr(str(total), pickle.dumps(function(name, item)))
            # The comment of the zip tells the inputs and the total without a look at its entries.
            file.comment = json.dumps({"inputs": self.inputs, "total": total}).encode()
        LOGGER.info("wrote %s", self.path)
        raise ShardWrittenError

    def read_total(self) -> int | None:
        """The number of items of all shards; None if this one is not there, or of other inputs."""
        try:
            with ZipFile(self.path) as file:
                header = json.loads(file.comment)
        except (FileNotFoundError, *DAMAGE):
            return None
        is_current = isinstance(header, dict) and header.get("inputs") == self.inputs
        return header["total"] if is_current and isinstance(header.get("total"), int) else None


@dataclass(frozen=True)
class Cluster:
    """Shards computed by Kaldi's run.pl, queue.pl, slurm.pl or the like, gathered here.

    log: of a shard, with JOB in its name; find_inputs: hashes what the results depend on;
    command: computes a shard, with JOB where its number stands; cmd: the script and its options.
    """

    directory: Path
    log: Path
    count: int
    find_inputs: Callable[[], str]
    command: Sequence[str]
    cmd: str

    def __call__(
        self, function: Callable[[str, Input], Output], items: Iterable[tuple[str, Input]]
    ) -> Iterator[Output]:
        """Yield what the shards hold, in order; those that are not there are computed first.

        InputError names the shards that the jobs did not leave.
        """
        missing = self._find_missing(self._list_shards())
        if missing:
            for number in missing:
                # The log of an earlier try must not explain a failure of this one.
                self._log_of(number).unlink(missing_ok=True)
            # A complete shard between two that are missing ends at once.
            run_array(self.command, missing[0], missing[-1], self.log, self.cmd)
        shards = self._list_shards()  # of the inputs as they are now
        lost = self._find_missing(shards)
        if lost:
            raise self._name_lost(lost)
        return self._gather(shards)

    def _list_shards(self) -> list[Shard]:
        inputs = self.find_inputs()
        return [
            Shard(self.directory, number, self.count, inputs) for number in range(1, self.count + 1)
        ]

    def _find_missing(self, shards: Sequence[Shard]) -> list[int]:
        """The numbers of the shards that are not there; what is of other inputs is removed."""
        missing = [shard.number for shard in shards if shard.read_total() is None]
        complete = {shard.path for shard in shards if shard.number not in missing}
        for path in set(self.directory.glob("*of*.zip")) - complete:
            path.unlink()
        return missing

    def _log_of(self, number: int) -> Path:
        return Path(str(self.log).replace(JOB, str(number)))

    def _name_lost(self, lost: Sequence[int]) -> InputError:
        logs = [self._log_of(number) for number in lost[:MOST_NAMED]]
        messages = "; ".join(f"{log}: {read_last_line(log)}" for log in logs)
        ellipsis = ", ..." if len(lost) > MOST_NAMED else ""
        return InputError(
            f"shard {', '.join(map(str, lost[:MOST_NAMED]))}{ellipsis} of {self.count} is lost,"
            f" the same command repeats it alone: {messages}"
        )

    def _gather(self, shards: Sequence[Shard]) -> Iterator[Any]:
        totals = {shard.read_total() for shard in shards}
        with ExitStack() as stack:
            files = [stack.enter_context(ZipFile(shard.path)) for shard in shards]
            for number in itertools.count(1):
                # Item n, from 1, was written by shard (n - 1) mod count.
                shard = shards[(number - 1) % self.count]
                # All shards have seen the same number of items, and that many are read.
                if totals == {number - 1}:
                    return
                try:
                    result = safe_pickle.load(io.BytesIO(files[shard.number - 1].read(str(number))))
                except DAMAGE as error:
                    shard.path.unlink()
                    raise InputError(
                        f"{shard.path}: shard {shard.number} of {self.count} is damaged and removed"
                        f" ({error}); the same command repeats it alone"
                    ) from None
                yield result
