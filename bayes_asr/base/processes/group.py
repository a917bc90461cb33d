"""Several processes that train one network, as torchrun starts them; with one, nothing happens.

Each of them computes its share of every batch. What they must agree on is added up or comes from
the first process, which alone writes.
"""

import heapq
import logging
import mmap
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bayes_asr.base.errors import InputError, StoppedError, complaint
from bayes_asr.base.files import NUMBER_SPACE
from bayes_asr.base.log import LOGGER
from bayes_asr.base.processes.offered_memory import offer_memory, open_memory
from bayes_asr.base.processes.shared_memory import ROOM, SharedBarrier

Made = TypeVar("Made")

# The first process may read a corpus for hours while others wait. The end of a process ends its
# connections, which is seen at once; this is for a machine that is gone without a word.
TIMEOUT = timedelta(days=1)
FAILURE, ENDED = "bayes_asr/failure", "bayes_asr/ended"  # keys of the store that all share
LOOK = timedelta(seconds=1)  # between two looks at whether another process has failed
FAREWELL = 30.0  # seconds that the first process keeps the store for others to read why it failed

_meeting: SharedBarrier | None = None  # where all processes are on one machine
_channel: dist.ProcessGroup | None = None  # for messages that pass others on their way


class PeerError(InputError):
    """The failure of another process, in its words."""


class LostPeerError(InputError):
    """Another process has ended without a word."""


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that torchrun started, if it did.

    They end together: where one fails, it says why, and the others end silently with it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(_number_card())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT)
    global _meeting, _channel
    _channel = dist.new_group(backend=backend, timeout=TIMEOUT)
    if not is_rank0():
        LOGGER.setLevel(logging.ERROR)
    store, failed = _find_store(), False
    try:
        _meeting = _find_meeting()
        yield
    except (Exception, KeyboardInterrupt) as error:
        # These ends are asked for, or are the consequence of another process's failure.
        failed = not isinstance(error, StoppedError | KeyboardInterrupt | LostPeerError)
        if not _speaks_of(error):
            raise SystemExit(_find_status(error)) from None
        raise
    finally:  # what this process says of its end is said by now
        if _meeting:
            _meeting.leave()
        _meeting = _channel = None
        if failed:
            _part(store)
        dist.destroy_process_group()


def _part(store: dist.distributed_c10d.Store) -> None:
    """Say that this process has failed; in the first one, wait for all others to have said so.

    The store goes with the first process, and with it the reason why all end, unless torchrun keeps
    it. Who ends without a word is not waited for longer than `FAREWELL`.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return
    until = time.monotonic() + FAREWELL
    with suppress(RuntimeError):
        if not is_rank0():
            store.add(ENDED, 1)
        # Adding 0 reads the counter without changing it.
        while is_rank0() and store.add(ENDED, 0) < size() - 1 and time.monotonic() < until:
            time.sleep(0.02)


def find_card() -> torch.device:
    """The GPU of this process; InputError where another process has it too."""
    card = torch.device("cuda", _number_card())
    if size() > 1:
        identity = str(torch.cuda.get_device_properties(card).uuid)
        identities = _gather_numbers(zlib.crc32(identity.encode()))
        if len(set(identities)) < len(identities):
            raise InputError(
                f"{size()} processes have {len(set(identities))} GPUs, and each needs one of its"
                " own: start as many as there are GPUs, or set train.device to cpu"
            )
    return card


def _number_card() -> int:
    """The number of the GPU of this process, of those that it sees: all of a machine, or one."""
    return int(os.environ.get("LOCAL_RANK", "0")) % max(1, torch.cuda.device_count())


def _find_meeting() -> SharedBarrier | None:
    """The barrier in shared memory, if all processes can use one, which is faster than messages."""
    memory = map_shared_memory(SharedBarrier.size(size()))
    numbers = [int(number) for number in _gather_numbers(os.getpid())]
    alike = len(set(_gather_numbers(NUMBER_SPACE))) == 1
    meeting = SharedBarrier.arrange(memory, dist.get_rank(), numbers) if memory and alike else None
    # All must take the same way, so one process without memory decides for all.
    (without,) = total(meeting is None)
    if without and meeting:
        meeting.leave()
    return None if without else meeting


def map_shared_memory(size: int) -> mmap.mmap | None:
    """Memory of `size` bytes that all processes see; None in all where one does not, or wants 0."""
    with ExitStack() as until_seen:
        offer = broadcast(lambda: until_seen.enter_context(offer_memory(size)))
        memory = open_memory(*offer, size) if offer and size else None
        (without,) = total(memory is None)
    return None if without else memory


def _speaks_of(error: BaseException) -> bool:
    """Whether this is the process that says why all end: the first, or the first to fail."""
    if isinstance(error, StoppedError | KeyboardInterrupt):
        return is_rank0()
    if isinstance(error, PeerError):
        return False
    mine = f"process {dist.get_rank()}: {complaint(error)}"
    with suppress(RuntimeError):  # the store may be gone too
        # The first to set the key wins, and finds its own words in the store.
        return _find_store().compare_set(FAILURE, "", mine) == mine.encode()
    return True


def _find_status(error: BaseException) -> int:
    if isinstance(error, StoppedError):
        return 128 + error.number
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _find_store() -> dist.distributed_c10d.Store:
    return dist.distributed_c10d._get_default_store()


@contextmanager
def explain_lost_peers() -> Iterator[None]:
    """Say what ended a process for which the others would wait in vain."""
    try:
        yield
    except RuntimeError as error:
        # The store may hold why the first process failed, which explains the lost connection.
        with suppress(RuntimeError):
            if _find_store().check([FAILURE]):
                raise PeerError(_find_store().get(FAILURE).decode()) from None
        raise LostPeerError(
            "another process of this training was killed, or its machine is gone; the same command"
            f" goes on from the last checkpoint ({error})"
        ) from None


def size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_rank0() -> bool:
    """Whether this is the process that writes."""
    return not dist.is_initialized() or dist.get_rank() == 0


def all_reduce(tensor: Tensor) -> None:
    """Add up a tensor over all processes, in place."""
    if not dist.is_initialized():
        return
    with explain_lost_peers():
        # Memory is only for what fits into the room of one process.
        if _meeting and tensor.nbytes <= ROOM and not tensor.is_cuda:
            tensor.copy_(_meeting.gather(tensor).sum(0))
        else:
            finish(dist.all_reduce(tensor, async_op=True), tensor)


def start_sum(tensor: Tensor) -> dist.Work:
    """Begin to add a tensor up over all processes, in place, without regard to other messages.

    All processes begin such sums in one order. `finish` ends them.
    """
    return dist.all_reduce(tensor, group=_channel, async_op=True)


def finish(work: dist.Work, tensor: Tensor) -> None:
    """Return once messages of a tensor have come; RuntimeError where a process has failed or is
    gone. One that has failed stays until the others know, and its connections with it.
    """
    while not (work.is_completed() or tensor.is_cuda):  # NCCL ends what does not come in time
        try:
            work.wait(LOOK)
        except RuntimeError:  # it is over, or just not yet complete
            if work.is_completed() or _find_store().check([FAILURE]):
                raise
    work.wait()


def total(*numbers: float) -> list[float]:
    """The sums of each number over all processes."""
    sums = torch.tensor(numbers, dtype=torch.float64)
    all_reduce(sums)
    return sums.tolist()


def wait() -> None:
    """Return once all processes are here."""
    total(0)


def largest(number: int) -> int:
    """The largest of the numbers of all processes."""
    return int(max(_gather_numbers(number)))


def _gather_numbers(number: float) -> list[float]:
    rank = dist.get_rank() if dist.is_initialized() else 0
    # A sum in which each process fills its own entry is an all-gather.
    return total(*(number if rank == each else 0 for each in range(size())))


def broadcast(make: Callable[[], Made]) -> Made:
    """Make an object in the process of rank 0 and return it in all of them."""
    objects = [make() if is_rank0() else None]
    if dist.is_initialized():
        # The wait is one that notices failed processes, which the broadcast would not.
        wait()
        with explain_lost_peers():
            dist.broadcast_object_list(objects, device=torch.device("cpu"))
    return objects[0]  # type: ignore[return-value]


def rank0_first(make: Callable[[], Made]) -> Made:
    """Make an object in each process, in rank 0 first: that leaves files which all can use."""
    result = make() if is_rank0() else None
    broadcast(lambda: None)
    # Rank 0 has its result already, and the others make theirs from its files.
    return make() if result is None else result


def take_share(utterances: Sequence[str], lengths: Mapping[str, int]) -> list[str]:
    """The utterances of a batch that this process computes, none of which another one has."""
    if not dist.is_initialized():
        return list(utterances)
    return deal(utterances, lengths, size())[dist.get_rank()]


def deal(batch: Sequence[str], lengths: Mapping[str, int], processes: int) -> list[list[str]]:
    """Deal the utterances of a batch to processes, so that all have about as many frames.

    The longest come first, each to the process that has the fewest frames; some may get none.
    """
    hands: list[list[str]] = [[] for _ in range(processes)]
    loads = [(0, number) for number in range(processes)]
    for utt in sorted(batch, key=lambda utt: (-lengths[utt], utt)):
        # The heap has the process with the fewest frames in front.
        frames, number = loads[0]
        hands[number].append(utt)
        heapq.heapreplace(loads, (frames + lengths[utt], number))
    return hands


def pool_statistics(model: nn.Module) -> None:
    """Let batch normalisation, and means of units, see the frames of all processes."""
    for module in model.modules():
        if hasattr(module, "all_reduce") and dist.is_initialized():
            vars(module)["all_reduce"] = all_reduce
