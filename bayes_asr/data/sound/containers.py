"""Whether a sound file is complete, by what its container says of itself.

libsndfile, which decodes it, takes a truncated RIFF, SPHERE, Ogg or MP3 file for a shorter one, and
ends an MP3 file of varying bit rate where it guesses the end.
"""

import re
import zlib

from bayes_asr.data.sound.chunks import (
    AU,
    CONVERT,
    FILES,
    LAYOUTS,
    check_au,
    check_chunks,
    refuse_second,
)
from bayes_asr.data.sound.file_bytes import FileBytes
from bayes_asr.kaldi_io.byte_reader import DAMAGED, ByteReader

CONVERT_ANY = "convert it: ffmpeg -i IN OUT.wav"
SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) (.*?)\s*$", re.M)
SPHERE_HEADER = 1 << 16  # bytes; NIST's are of 1024
SPHERE_COUNTS = ("sample_count", "sample_rate", "channel_count", "sample_n_bytes")
SPHERE_CODINGS = ("pcm", "ulaw", "mu-law", "alaw")
FIRST_PAGE = 2  # flag of an Ogg page: the beginning of its stream
LAST_PAGE = 4  # flag of an Ogg page: the end of its stream
CHECKSUM = slice(22, 26)  # of an Ogg page
BIT_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
OGG_SOUNDS = (b"\1vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   ")  # where such a stream begins
ID3 = 10  # bytes of the header of a tag
# MPEG-1 and 2, layer III (ISO 11172-3, 13818-3): kbit/s by index, Hz by version and index
BIT_RATES = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
SAMPLE_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
MP3_TAGS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3")  # what may follow the sound
MP3_HIDDEN = 4  # frames that hold no sound of their own: what the coder knows, delays, padding
KINDS = ("RIFF", "RF64", "W64", "AIFF", "CAF", "AU", "NIST SPHERE", "FLAC", "Ogg", "MP3")
NEEDED = 16  # bytes that tell what a file is


def is_known(head: bytes | bytearray) -> bool:
    """Say whether a file that begins so is of a kind that is read."""
    return has_magic(head) or _is_mp3(head)


def has_magic(head: bytes | bytearray) -> bool:
    """Say whether the first bytes name a kind that is read: of all but MP3 without a tag."""
    return head.startswith((*FILES, b"NIST", b"fLaC", b"OggS", b"ID3"))


def check_complete(content: FileBytes, name: str) -> range:
    """Refuse a file that lacks bytes; returns the range in which its number of samples must lie.

    content: of a kind that is known. It is brought into a form that libsndfile understands: without
    an ID3 tag before the sound and what follows SPHERE's, and as `check_chunks` leaves it.
    """
    while (head := content[:ID3])[:3] == b"ID3":
        # The size of an ID3 tag has seven bits in each of four bytes, the highest first.
        size = sum((byte & 127) << 7 * place for place, byte in enumerate(head[9:5:-1]))
        # Bit 4 of the flags says that a footer as long as the header follows the tag.
        footer = ID3 * bool(len(head) > 5 and head[5] & 16)
        # Some programs leave zeros between the tag and the sound.
        del content[: ID3 + size + footer]
        del content[: content.count_zeros()]
    magic = content[:4]
    source = ByteReader(content.open(), name, len(content))
    if magic in LAYOUTS:
        check_chunks(content, source)
    elif magic in AU:
        check_au(content, source)
    elif magic == b"NIST":
        count = _check_sphere(content, source)
        return range(count, count + 1)
    elif magic == b"OggS":
        _check_pages(source)
    elif _is_mp3(magic):
        return _count_mp3(content, source)
    elif magic != b"fLaC":
        raise source.fail(f"no sound follows its tags: {DAMAGED}, or {CONVERT}")
    # Here the container, or the decoder of FLAC, tells what is missing: any number will do.
    return range(1 << 62)


def _check_sphere(content: FileBytes, source: ByteReader) -> int:
    """Read the text header (SPHERE 2.7, sp.doc of NIST): how many samples the file holds."""
    # The first line is the magic, the second the size of the whole header in bytes.
    head = source.line() + source.line()
    size = head.removeprefix(b"NIST_1A\n").strip()
    if not head.startswith(b"NIST_1A\n") or not size.isdigit() or int(size) > SPHERE_HEADER:
        raise source.fail(f"the header of a NIST SPHERE file is damaged: {DAMAGED}, or {CONVERT}")
    text = source.take(int(size) - source.position, "the header")
    # Nothing after `end_head` counts: the rest of the header is padding.
    fields = dict(SPHERE_FIELD.findall(text.partition(b"end_head")[0]))
    counts = {name: _parse_sphere_count(fields, name, source) for name in SPHERE_COUNTS}
    coding = fields.get(b"sample_coding", b"pcm").decode("latin-1")
    if coding not in SPHERE_CODINGS:
        raise source.fail(
            f"its samples are coded as {coding!r}, of which only {', '.join(SPHERE_CODINGS)} are"
            " read; convert it: sph2pipe -f wav IN OUT.wav"
        )
    order = fields.get(b"sample_byte_format", b"")
    if counts["sample_n_bytes"] > 1 and order not in (b"01", b"10"):
        raise source.fail(f"byte order {order!r}, not '01' or '10'; {CONVERT}")
    length = counts["sample_n_bytes"] * counts["sample_count"] * counts["channel_count"]
    source.expect(length, "the sound")
    refuse_second(content, source.position + length, source)
    del content[source.position + length :]  # libsndfile would take it for sound
    return counts["sample_count"]


def _parse_sphere_count(fields: dict[bytes, bytes], name: str, source: ByteReader) -> int:
    value = fields.get(name.encode(), b"")
    if not value.isdigit() or len(value) > 12:
        raise source.fail(f"the header has no whole number {name}, but {value[:20]!r}: {DAMAGED}")
    return int(value)


def _check_pages(source: ByteReader) -> None:
    """Walk the pages of an Ogg file (RFC 3533); the last one must end the one stream of sound.

    A decoder passes over damaged pages, and over those that are missing.
    """
    flags = streams = 0
    due: dict[bytes, int] = {}
    damage: list[str] = []
    while head := source.read_some(27):
        if len(head) < 27 or head[:4] != b"OggS":
            raise source.fail(f"no page of Ogg ends at offset {source.position}: {DAMAGED}")
        # Byte 26 of a page is the number of its segments; as many bytes follow, each a length.
        lengths = source.take(head[26], "a page")
        body = source.take(sum(lengths), "a page")
        stream, number = head[14:18], int.from_bytes(head[18:22], "little")
        if _sum_page(head + lengths + body) != int.from_bytes(head[CHECKSUM], "little"):
            damage.append(f"page {number} of Ogg has another checksum")
        # Streams of radio are cut behind their headers, whose samples are counted as 0.
        if number != due.get(stream, number):
            damage.append(f"page {number} of Ogg follows {due[stream] - 1}")
        due |= {stream: number + 1} if any(head[6:14]) else {}
        flags = head[5]
        streams += body.startswith(OGG_SOUNDS) and bool(flags & FIRST_PAGE)
    if not flags & LAST_PAGE:
        raise source.fail(f"the stream does not end within its {source.position} bytes: {DAMAGED}")
    if streams > 1:
        raise source.fail(
            f"holds {streams} streams of sound, as by `cat`, of which only the first would be"
            f" decoded: take them apart, or {CONVERT_ANY}"
        )
    if damage:
        raise source.fail(f"{damage[0]}: {DAMAGED}")


def _sum_page(page: bytes) -> int:
    """The checksum of a page of Ogg, a CRC of 32 bits that begins at 0."""
    blank = page[: CHECKSUM.start] + bytes(4) + page[CHECKSUM.stop :]
    # zlib's CRC takes the bits of a byte from the other end, begins and ends with all bits set.
    crc = zlib.crc32(blank.translate(BIT_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


def _is_mp3(head: bytes | bytearray) -> bool:
    return len(head) > 3 and _mp3_frame(head, 0) is not None


def _mp3_frame(content: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """Bytes and samples of the frame of MPEG layer III that begins here, None if none does."""
    header = int.from_bytes(content[start : start + 4], "big")
    # Below 11 bits of sync lie version (2), layer (2), no CRC (1), bit rate (4) and rate (2).
    version, index, rate = header >> 19 & 3, header >> 12 & 15, header >> 10 & 3
    if header >> 21 != 0x7FF or header >> 17 & 3 != 1 or version == 1 or rate == 3:
        return None
    # Index 0 means a free bit rate, whose frames tell no length; 15 is forbidden.
    if index in (0, 15):
        return None
    bits = 1000 * BIT_RATES[version != 3][index]
    samples = 1152 if version == 3 else 576
    # ISO 11172-3, 2.4.3.1: bytes of a frame; the padding bit adds one.
    length = samples // 8 * bits // SAMPLE_RATES[version][rate] + (header >> 9 & 1)
    return length, samples


def _count_mp3(content: FileBytes, source: ByteReader) -> range:
    """Walk the frames of an MP3 file: how many samples may come out of them."""
    position = frames = samples = 0
    # A buffer of zeros, which was not filled, may follow the sound.
    while position + content.count_zeros(position) < len(content) and not content.startswith(
        MP3_TAGS, position
    ):
        frame = _mp3_frame(content[position : position + 4], 0)
        if frame is None:
            raise source.fail(
                f"no frame of MP3 begins at offset {position}: {DAMAGED}, or {CONVERT}"
            )
        length, samples = frame
        if position + length > len(content):
            raise source.fail(
                f"a frame needs {length} bytes at offset {position}, the file has"
                f" {len(content)}: {DAMAGED}"
            )
        position, frames = position + length, frames + 1
    # A decoder may leave out the frames at the start that carry no sound, or give them as silence.
    return range(max(0, frames - MP3_HIDDEN) * samples, frames * samples + 1)
