"""Files of chunks, each a name, a size and bytes: RIFF, RF64 (EBU 3306), W64, AIFF, CAF; and AU.

The sound must be there to its end: libsndfile takes a truncated file for a shorter one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bayes_asr.data.sound.file_bytes import FileBytes
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader

CONVERT = "convert it: sox IN OUT.wav"
# sizes of sound that programs announce in a pipe: sox and arecord about 2 GiB, ffmpeg all that fits
STREAMED = (range(0x7FFF0000, 0x80010000), range(0xFFFF0000, 0x100000000))
STREAMED_LONG = (0, 2**63 - 1, 2**64 - 1)  # the same in 64 bits
LARGEST_SIZE = 2**32 - 1  # of RIFF; in RF64 it says that the chunk `ds64` has the size
GUID = bytes.fromhex("2e91cf11a5d628db04c10000")  # of a W64 file, behind its `riff`
Endian = Literal["little", "big"]
AU: dict[bytes, Endian] = {b".snd": "big", b"dns.": "little"}
AU_HEADER = 24  # bytes
AU_CODINGS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}  # bytes of a sample
FILES = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM", b"riff" + GUID, b"caff\0\1", *AU)
LONGEST_TAG = 4096  # bytes that may follow the chunks and be no sound
FURTHER = (b"NIST_1A", b"fLaC", b"OggS")  # files that may follow another


@dataclass(frozen=True)
class ChunkLayout:
    """The way in which chunks are written.

    forms: what precedes the first one; sound: the name of that with the samples; name_size,
    number_size: bytes of a name, of which four are letters, and of a size; multiple: of bytes, to
    which chunks are padded; counts_header: whether a size is also of itself and the name.
    """

    forms: tuple[bytes, ...]
    endian: Endian = "little"
    sound: bytes = b"data"
    name_size: int = 4
    number_size: int = 4
    multiple: int = 2
    counts_header: bool = False

    @property
    def header(self) -> int:
        """Bytes of a name and a size."""
        return self.name_size + self.number_size

    def parse(self, number: bytes | bytearray) -> int:
        """The bytes of a chunk behind its size; a negative number for a size that cannot be."""
        return int.from_bytes(number, self.endian) - self.header * self.counts_header

    def write(self, length: int) -> bytes:
        """The inverse of `parse`."""
        return (length + self.header * self.counts_header).to_bytes(self.number_size, self.endian)

    def pad(self, length: int) -> int:
        """The bytes from the size of a chunk to the next chunk."""
        return length + -length % self.multiple

    def is_streamed(self, length: int, present: int) -> bool:
        """Whether a length says no more than "to the end": 0, or about the largest there is.

        present: bytes of the file.
        """
        if self.number_size == 8:
            return length + self.header * self.counts_header in STREAMED_LONG
        return length == 0 or (length > present and any(length in sizes for sizes in STREAMED))


RIFF = ChunkLayout((b"WAVE",))
LAYOUTS = {
    b"RIFF": RIFF,
    b"RIFX": ChunkLayout((b"WAVE",), "big"),
    b"RF64": RIFF,
    b"BW64": RIFF,
    b"FORM": ChunkLayout((b"AIFF", b"AIFC"), "big", b"SSND"),
    b"riff": ChunkLayout((b"wave",), "little", b"data", 16, 8, 8, counts_header=True),
    b"caff": ChunkLayout((b"\0\1\0\0",), "big", b"data", 4, 8, 1),
}


def check_chunks(content: FileBytes, source: ByteReader) -> None:
    """Refuse a file whose sound is not there to its end, or is not all of it.

    Sizes that a pipe left open, and those of 64 bits, are written into `content` as libsndfile
    understands them, and what follows W64's sound is taken away.
    """
    magic = content[:4]
    layout = LAYOUTS[magic]
    end = _read_header(magic, layout, source)
    chunks = _walk_to_sound(layout, source)
    size_at, length = source.position, layout.parse(source.take(layout.number_size, "a size"))
    if magic in (b"RF64", b"BW64"):
        end, length = _bring_to_riff(content, size_at, length, chunks, source)
    sizes = (length,) if layout.number_size == 8 else (length, end - layout.header)
    if magic != b"FORM" and any(layout.is_streamed(size, len(content)) for size in sizes):
        end = len(content)
        length = end - source.position
        # The largest size makes libsndfile read to the end of a RIFF.
        number = layout.write(length if layout.number_size == 8 else LARGEST_SIZE)
        content[size_at : source.position] = number
    _refuse_second_sound(content, layout, source, source.position + layout.pad(length), end)
    source.expect(length, "the sound")
    _check_alignment(length, chunks, layout, source)
    if magic == b"riff":
        del content[source.position + length :]  # libsndfile would take it for sound


def check_au(content: FileBytes, source: ByteReader) -> None:
    """The same of a file of Sun's, which has one header of numbers before its sound."""
    endian = AU[source.take(4, "the header")]
    offset, length, coding, _, channels = (
        int.from_bytes(source.take(4, "the header"), endian) for _ in range(5)
    )
    source.take(offset - AU_HEADER, "the header")
    if length == LARGEST_SIZE:  # as a pipe has it
        length = len(content) - source.position
    refuse_second(content, source.position + length, source)
    source.expect(length, "the sound")
    _refuse_part(length, AU_CODINGS.get(coding, 1) * channels, source)


def refuse_second(content: FileBytes, end: int, source: ByteReader) -> None:
    """Refuse a file behind which, at the offset `end`, another begins."""
    if content.startswith((*FILES, *FURTHER), end):
        raise source.fail(
            f"another file of sound begins at offset {end}, as by `cat`: take them apart, or join"
            " them by sox A B OUT.wav"
        )


def _read_header(magic: bytes, layout: ChunkLayout, source: ByteReader) -> int:
    """Read what precedes the chunks; the offset behind the file, by its size or by its bytes."""
    source.take(layout.name_size, "the header")
    end = source.size or 0
    if magic != b"caff":
        size = layout.parse(source.take(layout.number_size, "a size"))
        end = layout.header + layout.pad(size)
    if source.take(layout.name_size, "the form")[:4] not in layout.forms:
        raise source.fail(f"a {magic.decode()} file, but not of sound; give its sound")
    return end


def _walk_to_sound(layout: ChunkLayout, source: ByteReader) -> dict[bytes, bytes]:
    """The chunks before the sound, by name."""
    chunks = {}
    while (name := source.take(layout.name_size, "the next chunk")[:4]) != layout.sound:
        length = layout.parse(source.take(layout.number_size, "a size"))
        source.expect(length, f"the chunk {name!r}")
        # A RIFF chunk of odd length is followed by one byte of padding.
        chunks[name] = source.take(layout.pad(length), f"the chunk {name!r}")
    return chunks


def _bring_to_riff(
    content: FileBytes, size_at: int, length: int, chunks: Mapping[bytes, bytes], source: ByteReader
) -> tuple[int, int]:
    """Write RF64, whose files are short enough here, as RIFF; returns its end and its length.

    Its chunk `ds64` begins with the sizes of file and sound in 64 bits.
    """
    long_sizes = chunks.get(b"ds64", b"")
    if len(long_sizes) < 16:
        raise source.fail(f"its sizes, the chunk ds64, are missing: {DAMAGED}")
    size, long_length = (int.from_bytes(long_sizes[i : i + 8], "little") for i in (0, 8))
    length = long_length if length == LARGEST_SIZE else length
    content[:4] = b"RIFF"
    content[size_at : size_at + 4] = RIFF.write(min(length, LARGEST_SIZE))
    return RIFF.header + size, length


def _refuse_second_sound(
    content: FileBytes, layout: ChunkLayout, source: ByteReader, position: int, end: int
) -> None:
    """Walk the chunks from a position: refuse another one of sound, and another file."""
    while position + layout.header <= end:
        refuse_second(content, position, source)
        name = content[position : position + 4]
        if name == layout.sound:
            raise source.fail(
                f"a second chunk of sound is at offset {position}, which others pass over: take"
                " the first by sox IN OUT.wav, or make the file again"
            )
        start = position + layout.header
        length = layout.parse(content[start - layout.number_size : start])
        if length < 0 or not name.isalnum():  # what no chunk is, such as zeros
            _refuse_unsized(content, position, source)
            break
        position = start + layout.pad(length)
    refuse_second(content, end, source)
    _refuse_unsized(content, end, source)


def _refuse_unsized(content: FileBytes, position: int, source: ByteReader) -> None:
    """Refuse much behind a position that no size in the file counts, as a header too short has it.

    Zeros and a tag are no sound.
    """
    rest = len(content) - position
    if rest > LONGEST_TAG and any(content[position : position + LONGEST_TAG]):
        raise source.fail(
            f"{rest} bytes follow the sound, which its sizes do not count: convert it:"
            " sox --ignore-length IN OUT.wav"
        )


def _check_alignment(
    length: int, chunks: Mapping[bytes, bytes], layout: ChunkLayout, source: ByteReader
) -> None:
    """Refuse sound that ends within a sample, by the bytes of one over all channels."""
    if form := chunks.get(b"fmt "):
        _refuse_part(length, int.from_bytes(form[12:14], layout.endian), source)
    elif form := chunks.get(b"desc"):  # of CAF, whose sound follows a number of 4 bytes
        _refuse_part(length - 4, int.from_bytes(form[16:20], layout.endian), source)


def _refuse_part(length: int, sample: int, source: ByteReader) -> None:
    if sample and length % sample:
        raise source.fail(
            f"{length} bytes of sound are no whole samples of {sample} bytes: {DAMAGED}, or"
            f" {CONVERT}"
        )
