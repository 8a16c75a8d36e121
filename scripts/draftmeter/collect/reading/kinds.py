"""What a file or a folder is, by its contents and not by its name."""

import re
from pathlib import Path

METRICS, TEXT = "metrics", "text"
STUDY_RECORD, BOOT, WATCHED_RECORD, TABLES, FOLDER = "study record", "boot", "watched record", "tables", "folder"

# What `draftmeter read` writes last; a folder with it holds whole tables.
READING_JSON = "reading.json"
_FOLDERS = {"record.json": STUDY_RECORD, "watch.json": WATCHED_RECORD, "boot.json": BOOT, READING_JSON: TABLES}

_COMMENT = re.compile(rb"#( (HELP|TYPE|UNIT|EOF)\b.*)?")
# A number may be followed by a time, in milliseconds or (OpenMetrics) in seconds with a fraction.
_SAMPLE = re.compile(
    rb"[A-Za-z_:][\w:]*(\{.*\})?[ \t]+[-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+|NaN|Inf)"
    rb"([ \t]+-?\d+(\.\d*)?([eE][-+]?\d+)?)?[ \t]*(# .*)?"
)
_VLLM_SAMPLE = re.compile(rb"(ray_)?vllm[:_]")
# The level that an entry of a log carries.
_LOG_ENTRY = re.compile(rb"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
# Archives and compressions that are not opened here, by their first bytes.
_UNOPENED = {
    b"\xfd7zXZ\x00": "compressed with xz",
    b"BZh": "compressed with bzip2",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_TAR = slice(257, 262)
FEWEST_BYTES_OF_BZIP2 = 4


def kind_of_folder(folder: Path) -> str:
    """One of the kinds of folders above; FOLDER for any other folder."""
    return next((kind for name, kind in _FOLDERS.items() if (folder / name).is_file()), FOLDER)


def unopened(head: bytes) -> str | None:
    """What a file is that has to be unpacked or converted first, by its first bytes; null for anything else."""
    if head[_TAR] == b"ustar":
        return "a tar archive"
    if head.startswith(b"BZh") and not head[3:FEWEST_BYTES_OF_BZIP2].isdigit():
        return None
    return next((what for start, what in _UNOPENED.items() if head.startswith(start)), None)


def kind_of_text(head: bytes, whole: bool) -> str:
    """METRICS if `head` is made of lines of a Prometheus text, else TEXT: a log, or nothing of ours.

    Among samples of vLLM, fewer lines of something else (a date, a bad line) are let through unless
    one is a log's. `head` is the start of the text, `whole`: it is all of it. A last line without its
    line feed, which may be cut, does not decide where there are others.
    """
    lines = head.splitlines()
    if lines and not head.endswith((b"\n", b"\r")) and not (whole and len(lines) == 1):
        lines = lines[:-1]
    lines = [line.strip() for line in lines if line.strip()]
    foreign: list[bytes] = []
    of_vllm = 0
    for line in lines:
        if _SAMPLE.fullmatch(line):
            of_vllm += _VLLM_SAMPLE.match(line) is not None
        elif not _COMMENT.fullmatch(line):
            foreign.append(line)
    if not foreign:
        return METRICS if lines else TEXT
    return METRICS if of_vllm > len(foreign) and not any(map(_LOG_ENTRY.search, foreign)) else TEXT
