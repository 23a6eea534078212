"""Traces in files, read and written: iosim's own format, libCacheSim's oracleGeneral, and CSV.

``iosim cache --trace FILE`` reads a stream, and ``--save FILE`` writes one; `form_of` chooses the
format by the file's beginning or its name.  Streams are read and written chunk by chunk, so that a
trace may be larger than memory.  A new format is one file with a `TraceForm` and one line in
`FORMATS`.

Changing files here: the layout of ``.iosim`` files is described in `iosim_format`.  Old files must
stay readable, so a new layout needs a new `VERSION`.  The layouts of the other two formats are not
ours to change.  A damaged file must raise InputError and never give a wrong access, and an
interrupted run must leave no file (`iosim.base.writing`); ``tests/cache/test_cache_files.py``
checks both.

>>> sorted(FORMATS)
['csv', 'iosim', 'oracleGeneral']
"""

from __future__ import annotations

from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.registry import registered
from iosim.base.validate import check_size
from iosim.base.writing import replacing, target
from iosim.cache.files._form import TraceForm, cannot
from iosim.cache.stream import CHUNK, Stream, check_stream

__all__ = [
    "FORMATS",
    "TraceForm",
    "check_target",
    "form_of",
    "read_trace",
    "trace_form",
    "write_trace",
]

# Name → module.  What a path ends in says which one it is, unless one is requested by name.
FORMATS: dict[str, str] = {
    "iosim": "iosim.cache.files.iosim_format",
    "oracleGeneral": "iosim.cache.files.oracle_general",
    "csv": "iosim.cache.files.plain",
}


def trace_form(name: str) -> TraceForm:
    """A registered format, or InputError with the closest name.

    >>> trace_form("oracleGeneral").name
    'oracleGeneral'
    """
    return registered("format of traces", name, FORMATS, "FORM", TraceForm)


def write_trace(stream: Stream, path: str | Path, *, form: str | None = None) -> None:
    """Write a stream to a file, which appears when it is whole and replaces what was there.

    Args:
        stream: any.
        path: its end says the format: .iosim, .oracleGeneral (or .bin), .csv.
        form: the format's name, whatever the path ends in.

    Raises InputError for a path that tells no format, and one that can't be written.

    >>> import tempfile
    >>> from iosim.cache import of_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace(of_arrays([5, 6, 5]), f"{folder}/three.csv")
    ...     print(Path(folder, "three.csv").read_text().splitlines()[:2])
    ['address,write', '5,0']
    """
    check_stream(stream)
    path = Path(path)
    chosen = trace_form(form) if form else _of_path(path)
    with replacing(path) as (part,):
        chosen.write(stream, part)


def check_target(path: str | Path) -> None:
    """Raise InputError, before a long run, for a path that no trace can be written to.

    >>> check_target("stream.trace")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: 'stream.trace' tells no format of traces: ...
    """
    _of_path(Path(path))
    target(path)


def read_trace(
    path: str | Path, *, form: str | None = None, line_words: int = 1, chunk: int = CHUNK
) -> Stream:
    """The stream that a file holds; the file is read again each time it is iterated.

    Addresses of a foreign trace that are far apart are numbered again, from 0 on in their order,
    since a cache keeps arrays over addresses; neighbors are then no longer known, so that lines
    are to be asked for here.  All that is kept meanwhile is the distinct addresses.

    Args:
        path: a file.
        form: the format's name, whatever the path ends in.
        line_words: of a foreign trace, how many neighboring addresses are one; the stream's unit
            is then a line.
        chunk: accesses in one chunk.

    Raises InputError for a path that tells no format, and a file that is damaged, cut short or
    foreign, here or when the stream comes to the record: its line has the record's number.

    >>> import tempfile
    >>> from iosim.cache import of_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace(of_arrays([5, 6, 5]), f"{folder}/three.iosim")
    ...     read_trace(f"{folder}/three.iosim").length
    3
    """
    path = Path(path)
    line_words = check_size("line_words", line_words)
    chunk = check_size("chunk", chunk)
    return form_of(path, form=form).read(path, line_words, chunk)


def form_of(path: str | Path, *, form: str | None = None) -> TraceForm:
    """The format of a file: that of its beginning or of its path's end, or the one of a name.

    Raises InputError for a file that can't be read, or begins as one of another format does.

    >>> import tempfile
    >>> from iosim.cache import of_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace(of_arrays([5]), f"{folder}/one.trace", form="iosim")
    ...     form_of(f"{folder}/one.trace").name
    'iosim'
    """
    path = Path(path)
    chosen = trace_form(form) if form else None
    try:
        if not path.is_file():
            what = "it is not a file" if path.exists() else "there is no such file"
            raise InputError(f"cannot read {str(path)!r}: {what}")
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise cannot("read", path, error) from error
    own = trace_form("iosim")
    if chosen is None and start.startswith(own.magic):
        chosen = own
    chosen = chosen or _of_path(path)
    if chosen is not own:
        for magic, what in _FOREIGN.items() | {(own.magic, "a trace of iosim's own format")}:
            if start.startswith(magic):
                raise InputError(f"{path}: record 0 begins {what}, which is not {chosen.name}")
    return chosen


_FOREIGN = {
    b"\x28\xb5\x2f\xfd": "a file that zstd compressed (unpack it: zstd -d)",
    b"\x1f\x8b": "a file that gzip compressed (unpack it: gunzip)",
    b"\xfd7zXZ\x00": "a file that xz compressed (unpack it: xz -d)",
}


def _of_path(path: Path) -> TraceForm:
    forms = [trace_form(name) for name in FORMATS]
    for form in forms:
        if path.name.lower().endswith(tuple(end.lower() for end in form.ends)):
            return form
    ends = ", ".join(end for form in forms for end in form.ends)
    raise InputError(f"{str(path)!r} tells no format of traces: let it end in {ends}, or name one")
