"""Files of torch.save, read as plain values and tensors: nothing in them is run.

A zip holds a pickle of protocol 2 and the bytes of each storage, without compression; before
PyTorch 1.6 they followed one another in one stream. torch.load reads the same, but trusts sizes: it
reserves what a pickle asks for, and reads behind the end of a storage.
"""

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import torch
from torch import Tensor

ZIP = b"PK\3\4"
STREAM, STREAM_VERSION = 0x1950A86A20F9469CFC6C, 1001  # the numbers that begin a file before 1.6
MOST_EXPANSION = 8  # of a zip, of lists that share items: weights hardly shrink
ALWAYS_ALLOWED = 1 << 20  # bytes
DEEPEST = 100  # lists in lists
ELEMENTS = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
OPERATIONS = (
    *("PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2"),
    *("LONG1", "BINFLOAT", "BINUNICODE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT"),
    *("LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "BUILD", "BINPERSID"),
)
"""Operations of pickles of protocol 2 that torch.save writes."""

ReadStorage = Callable[[str, torch.dtype, int], Tensor]
"""Key, type and number of elements of a storage -> its elements [N]."""


def read_saved(file: BinaryIO, size: int) -> Any:
    """Read a file of torch.save that has `size` bytes, in memory in proportion to them.

    Raises UnpicklingError for anything but tensors and plain values, and other exceptions of many
    kinds for a file that is damaged.
    """
    is_zip = file.read(len(ZIP)) == ZIP
    file.seek(0)
    # From memory: a file itself would reserve what a forged size asks for before it is read.
    content = _read_zip(file, size) if is_zip else _read_stream(io.BytesIO(file.read(size)), size)
    _check_plain(content, max(ALWAYS_ALLOWED, MOST_EXPANSION * size))
    return content


def _read_zip(file: BinaryIO, size: int) -> Any:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MOST_EXPANSION * size:
            raise zipfile.BadZipFile(
                f"its {size} bytes unpack to {unpacked}, which no network does"
            )
        for entry in archive.infolist():
            if (length := len(archive.read(entry))) != entry.file_size:
                raise zipfile.BadZipFile(
                    f"{entry.filename} has {length} of {entry.file_size} bytes"
                )
        names = archive.namelist()
        root = next(name for name in names if name.endswith("data.pkl")).removesuffix("data.pkl")
        if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
            raise zipfile.BadZipFile("its numbers are in another byte order")

        def read_storage(key: str, dtype: torch.dtype, count: int) -> Tensor:
            raw = archive.read(f"{root}data/{key}")
            if len(raw) != count * dtype.itemsize:
                raise zipfile.BadZipFile(f"{count} {dtype} of {len(raw)} bytes")
            return _as_elements(raw, dtype)

        return _Unpickler(io.BytesIO(archive.read(f"{root}data.pkl")), read_storage).load()


def _read_stream(file: BinaryIO, size: int) -> Any:
    storages: dict[str, Tensor] = {}
    remaining = size

    def reserve_storage(key: str, dtype: torch.dtype, count: int) -> Tensor:
        nonlocal remaining
        remaining -= count * dtype.itemsize
        if remaining < 0:
            raise EOFError(f"{count} {dtype} in a file of {size} bytes")
        storages[key] = torch.empty(count, dtype=dtype)
        return storages[key]

    header = [_Unpickler(file, reserve_storage).load() for _ in range(3)]
    if header[:2] != [STREAM, STREAM_VERSION] or header[2].get("little_endian") is not True:
        raise pickle.UnpicklingError("is no file of torch.save")
    content = _Unpickler(file, reserve_storage).load()
    for key in _Unpickler(file, reserve_storage).load():
        count, storage = int.from_bytes(file.read(8), "little"), storages[key]
        raw = file.read(len(storage) * storage.itemsize)
        if count != len(storage) or len(raw) != count * storage.itemsize:
            raise EOFError(f"{len(raw)} bytes for {len(storage)} numbers, announced as {count}")
        storage.copy_(_as_elements(raw, storage.dtype))
    return content


def _as_elements(raw: bytes, dtype: torch.dtype) -> Tensor:
    """The numbers in bytes, in memory that is aligned as torch's own."""
    elements = torch.empty(len(raw) // dtype.itemsize, dtype=dtype)
    if raw:
        elements.copy_(torch.frombuffer(bytearray(raw), dtype=dtype))
    return elements


class _Operations(dict[int, Callable[..., None]]):
    """Functions of an unpickler by their code; those of codes that are not there refuse."""

    def __missing__(self, code: int) -> Callable[..., None]:
        raise pickle.UnpicklingError(f"operation {code}")


class _Unpickler(pickle._Unpickler):
    """An unpickler of tensors and plain values.

    The one in Python: that in C reserves a table as long as the largest number in a pickle.
    """

    stack: list[Any]

    def __init__(self, file: BinaryIO, read_storage: ReadStorage) -> None:
        super().__init__(file)
        self._read_storage = read_storage
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A type of elements or a function, by the name that torch.save writes."""
        table = ELEMENTS if module == "torch" else FUNCTIONS.get(module, {})
        if name not in table:
            raise pickle.UnpicklingError(f"holds {module}.{name}")
        return table[name]

    def persistent_load(self, identity: tuple[Any, ...]) -> Tensor:
        """The elements of a storage, which several tensors may share."""
        kind, dtype, key, _, count, *view = identity
        if kind != "storage" or view not in ([], [None]) or type(count) is not int or count < 0:
            raise pickle.UnpicklingError("holds a view of a storage")
        if key not in self._storages:
            self._storages[key] = self._read_storage(key, dtype, count)
        return self._storages[key]

    def load_setitem(self) -> None:
        """Set an item of a mapping."""
        value, key = self.stack.pop(), self.stack.pop()
        _set_items(self.stack[-1], [(key, value)])

    def load_setitems(self) -> None:
        """Set some items of a mapping."""
        items = self.pop_mark()  # type: ignore[attr-defined]
        _set_items(self.stack[-1], zip(items[::2], items[1::2], strict=True))

    def load_build(self) -> None:
        """Pass over the attributes of an OrderedDict: versions of the modules of a network."""
        self.stack.pop()
        if type(self.stack[-1]) is not OrderedDict:
            raise pickle.UnpicklingError("holds attributes of an object")


_Unpickler.dispatch = _Operations(
    (code, getattr(_Unpickler, pickle._Unpickler.dispatch[code].__name__))
    for code in (getattr(pickle, name)[0] for name in OPERATIONS)
)


def _set_items(mapping: Any, items: Iterable[tuple[Any, Any]]) -> None:
    """Set items whose keys are names or numbers: a tuple of tuples may take for ever to hash."""
    if not isinstance(mapping, dict):
        raise pickle.UnpicklingError("holds items of no mapping")
    for key, value in items:
        if type(key) not in (str, int):
            raise pickle.UnpicklingError(f"holds a key of type {type(key).__name__}")
        mapping[key] = value


def _build_mapping(items: Iterable[tuple[Any, Any]] = ()) -> OrderedDict[Any, Any]:
    """The OrderedDict of some items, which Python 2 wrote as its argument."""
    mapping: OrderedDict[Any, Any] = OrderedDict()
    _set_items(mapping, items)
    return mapping


def _build_tensor(
    elements: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int], *gradient: object
) -> Tensor:
    """The tensor of some elements of a storage; ValueError where that has too few."""
    _check_gradient(*gradient)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    # A stride of 0 would let one element stand for any number of them.
    count = math.prod(shape)
    if (
        min((offset, *shape, *strides)) < 0
        or count > len(elements)
        or (count and last >= len(elements))
    ):
        raise ValueError(f"a tensor {list(shape)} at {offset} of {len(elements)} elements")
    return elements.new_empty(0).set_(elements.untyped_storage(), offset, shape, strides)


def _build_parameter(tensor: Tensor, *gradient: object) -> Tensor:
    """A parameter as a plain tensor."""
    _check_gradient(*gradient)
    return tensor


def _check_gradient(requires_grad: object = None, *_: object) -> None:
    """Refuse what torch would, though tensors are made without gradients here."""
    if type(requires_grad) is not bool:
        raise ValueError(f"requires_grad is {repr(requires_grad)[:40]}")


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "collections": {"OrderedDict": _build_mapping},
    "torch._utils": {"_rebuild_tensor_v2": _build_tensor, "_rebuild_parameter": _build_parameter},
}
"""The functions of a pickle by module and name."""


def _check_plain(content: Any, most: int) -> None:
    """Refuse values that are not plain, and lists that hold each other over and over.

    Whoever walks through such lists goes on for ever. In a file every value takes a byte or more,
    so that a walk is bounded by its size.
    """
    pending = [(content, 0)]
    while pending:
        value, depth = pending.pop()
        most -= 1 + (len(value) if isinstance(value, str) else 0)
        if most < 0 or depth > DEEPEST:
            raise ValueError("its lists hold each other over and over")
        if isinstance(value, dict):
            pending += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list | tuple):
            pending += [(item, depth + 1) for item in value]
        elif value is not None and not isinstance(value, Tensor | str | int | float):
            raise pickle.UnpicklingError(f"holds a {type(value).__name__}")
