"""Size that a compressed chunk file decompresses to, read without decompressing it.

A few bytes can stand for gigabytes, and a reader that decodes first allocates them. Format: RFC
8878, section 3.1.1.
"""

from __future__ import annotations

import os
from pathlib import Path

_MAGIC = b"\x28\xb5\x2f\xfd"
_LONGEST_HEADER = 18
_BLOCK_HEADER = 3
_RLE = 1  # type of a block that repeats one byte


def content_bytes(file: Path, trailer: int) -> int | None:
    """Return the size of the content of a file that is one Zstandard frame and a trailer.

    Args:
        file: The file.
        trailer: Bytes behind the frame.

    Returns:
        Size that the header of the frame states; None if it states none, or the file is no single
        whole frame. Decoders add up the contents of several frames.

    Raises:
        OSError: The file cannot be read, or is a link.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size - trailer
        header = os.pread(descriptor, _LONGEST_HEADER, 0)
        if len(header) <= len(_MAGIC) or not header.startswith(_MAGIC):
            return None
        size, begin = _header(header)
        return size if _frame_end(descriptor, begin, end, _checksum(header)) == end else None
    finally:
        os.close(descriptor)


def _header(header: bytes) -> tuple[int | None, int]:
    """Return the size of the content, if it is there, and the offset of the first block."""
    descriptor = header[len(_MAGIC)]
    is_single, dictionary = descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
    begin = len(_MAGIC) + 1 + (not is_single) + dictionary
    length = (is_single, 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(header[begin : begin + length], "little") if length else None
    return size if size is None or length != 2 else size + 256, begin + length


def _checksum(header: bytes) -> int:
    """Return the bytes of the checksum behind the blocks."""
    return 4 if header[len(_MAGIC)] & 4 else 0


def _frame_end(descriptor: int, begin: int, most: int, checksum: int) -> int:
    """Return the offset behind the frame whose blocks begin at an offset, or one above ``most``."""
    while begin < most:
        block = int.from_bytes(os.pread(descriptor, _BLOCK_HEADER, begin), "little")
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        begin += _BLOCK_HEADER + (1 if kind == _RLE else size)
        if is_last:
            return begin + checksum
    return most + 1
