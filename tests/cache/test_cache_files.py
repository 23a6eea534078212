"""Traces in files: there and back, and one line for each that is damaged, cut short or foreign."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from iosim.base.errors import InputError
from iosim.cache import Accesses, Cache, Stream, of_arrays, replay, touches
from iosim.cache.files import (
    FORMATS,
    _form,
    iosim_format,
    oracle_general,
    read_trace,
    trace_form,
    write_trace,
)

ENDS = {"iosim": "x.iosim", "oracleGeneral": "x.oracleGeneral", "csv": "x.csv"}


def both(stream: Stream) -> tuple[list[int], list[bool]]:
    parts = list(stream.chunks())
    return (
        [x for part in parts for x in part.address.tolist()],
        [x for part in parts for x in part.write.tolist()],
    )


def flash2() -> Stream:
    program = iosim.algorithm("flash2").program
    instance = iosim.bind(program, iosim.Attention(N=9, d=3).sizes, {"B_r": 4, "B_c": 2})
    return touches(instance, line_words=4)


def test_every_format_is_registered_by_its_name() -> None:
    assert set(ENDS) == set(FORMATS)
    assert all(trace_form(name).name == name for name in FORMATS)
    with pytest.raises(InputError, match="did you mean 'oracleGeneral'"):
        trace_form("oraclegeneral")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("chunk", [1, 7, 2**18])
@pytest.mark.parametrize("empty", [False, True])
def test_there_and_back(
    name: str, chunk: int, empty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iosim_format, "CHUNK", 50)
    stream = of_arrays([]) if empty else flash2()
    path = tmp_path / ENDS[name]
    write_trace(stream, path)
    back = read_trace(path, chunk=chunk)
    address, write = both(stream)
    if name == "oracleGeneral":
        write = [False] * len(write)
    assert both(back) == both(back) == (address, write)
    assert back.length == stream.length
    assert all(part.address.size <= chunk for part in back.chunks())
    assert [x.name for x in tmp_path.iterdir()] == [path.name]
    if name == "iosim":
        said = {"chunks": None}
        assert replace(back, **said) == replace(stream, **said)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=60), st.integers(1, 4))
@examples(3 / 5)
def test_sparse_addresses_are_numbered_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], line: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "x.csv"
    path.write_text("".join(f"{x}\n" for x in ids))
    stream = read_trace(path, line_words=line, chunk=7)
    lines = [x // line for x in ids]
    few = not lines or max(lines) < max(2**16, 4 * len(set(lines)))
    rank = {x: x if few else k for k, x in enumerate(sorted(set(lines)))}
    assert both(stream)[0] == [rank[x] for x in lines]
    assert stream.addresses == max((rank[x] + 1 for x in lines), default=0)
    assert (stream.unit, stream.line_words) == ("words" if line == 1 else "lines", line)


def test_many_distinct_addresses_are_merged_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_form, "_AT_ONCE", 10)
    ids = np.random.default_rng(1).integers(2**40, size=200)
    path = tmp_path / "x.csv"
    path.write_text("".join(f"{x}\n" for x in [*ids, *ids]))
    order = np.argsort(np.argsort(ids)).tolist()
    assert both(read_trace(path, chunk=9))[0] == [*order, *order]


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_next_accesses_are_those_of_a_plain_loop(chunk: int, tmp_path: Path) -> None:
    address = np.random.default_rng(2).integers(9, size=200)
    path = tmp_path / "x.oracleGeneral"
    write_trace(of_arrays(address, addresses=20, chunk=chunk), path)
    raw = path.read_bytes()
    records = [struct.unpack_from("<IQIq", raw, 24 * k) for k in range(200)]
    assert len(raw) == 24 * 200
    for k, (at, number, size, later) in enumerate(records):
        rest = [n for n in range(k + 1, 200) if address[n] == address[k]]
        assert (at, number, size, later) == (k, address[k], 1, rest[0] + 1 if rest else -1)


def test_csv_says_what_it_may(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for text, marks in (
        ("address,write\n5,0\n6,1\n", [False, True]),
        ("5, r\r\n6, W\r\n", [False, True]),
        ("address\n5\n6", [False, False]),
        ("5,1\n6,0", [True, False]),
    ):
        path.write_bytes(text.encode())
        assert both(read_trace(path)) == ([5, 6], marks)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("address,write\n1,0\n2\n", "line 3 says '2' and no access"),
        ("1\n\n2\n", "line 2 says ''"),
        ("1\n-2\n", "line 2 says '-2'"),
        ("1\n1.5\n", "line 2 says '1.5'"),
        ("1,2\n", "line 1 says '1,2'"),
        ("1,0,3\n", "line 1 says '1,0,3'"),
        ("1,0\n18446744073709551616,0\n", "line 2 says '18446744073709551616,0'"),
        ("time,id\n1,0\n", "line 1 says 'time,id'"),
        ("\x00\x01\x02", "line 1 says"),
        ("1,0\n2,", "line 2 says '2,'"),
    ],
)
def test_csv_that_says_something_else(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    for chunk in (1, 2**18):
        with pytest.raises(InputError) as caught:
            read_trace(path, chunk=chunk)
        assert str(caught.value).startswith(f"{path}: {line}")
        assert "\n" not in str(caught.value)


def write_flash2(path: Path) -> bytes:
    write_trace(flash2(), path)
    return path.read_bytes()


def with_header(raw: bytes, **change: Any) -> bytes:
    """A trace of our format whose header says something else, with the right checksum."""
    (size,) = struct.unpack_from("<I", raw, 12)
    told = json.dumps(json.loads(raw[16 : 16 + size]) | change).encode()
    head = raw[:12] + struct.pack("<I", len(told)) + told
    return head + struct.pack("<I", zlib.crc32(head)) + raw[20 + size :]


OWN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda raw: b"", "record 0 does not begin a trace of iosim's format"),
    "foreign": (lambda raw: b"%PDF-1.7" + raw, "it has b'%PDF-1.7' and not b'iosimtrc'"),
    "version": (lambda raw: raw[:8] + b"\x02" + raw[9:], "is of version 2 of the format, and this"),
    "no header": (lambda raw: raw[:30], "is cut short before record 0, in its header"),
    "header": (lambda raw: raw[:20] + b"?" + raw[21:], "is damaged before record 0: its header"),
    "key": (lambda raw: with_header(raw, length="9"), "its header says length = '9'"),
    "unit": (lambda raw: with_header(raw, unit="miles"), "its header says 'miles'"),
    "region": (lambda raw: with_header(raw, regions=[{"x": 1}]), "unexpected keyword"),
    "cut": (lambda raw: raw[:-1], r"is cut short at record 100 of 1\d\d: it has"),
    "longer": (lambda raw: raw + b"x", "1 bytes more than its header says"),
    "flipped": (lambda raw: raw[:-9] + b"\xff" + raw[-8:], r"records 100 to 1\d\d are damaged"),
    "beyond": (lambda raw: with_header(raw, addresses=5), r"record \d+ has address \d+, and"),
}


@pytest.mark.parametrize("what", OWN)
def test_our_format_damaged(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iosim_format, "CHUNK", 100)
    path = tmp_path / "x.iosim"
    write_trace(of_arrays(np.arange(150) % 40), path)
    spoil, line = OWN[what]
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=line) as caught:
        both(read_trace(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_of_our_format_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.iosim"
    write_trace(of_arrays([3, 1, 4, 1, 5], [True] * 5), path)
    raw = path.read_bytes()
    for k in range(8 * len(raw)):
        spoilt = bytearray(raw)
        spoilt[k // 8] ^= 1 << (k % 8)
        path.write_bytes(spoilt)
        with pytest.raises(InputError):
            both(read_trace(path, form="iosim"))


def test_every_cut_of_a_file_is_found(tmp_path: Path) -> None:
    for name in ("iosim", "oracleGeneral"):
        path = tmp_path / ENDS[name]
        write_trace(of_arrays([3, 3, 1, 4, 3]), path)
        raw = path.read_bytes()
        for size in range(1, len(raw)):
            path.write_bytes(raw[:size])
            with pytest.raises(InputError, match=re.escape(str(path))):
                both(read_trace(path))


def test_oracle_general_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.oracleGeneral"
    write_trace(of_arrays([3, 3, 1, 4, 3]), path)
    raw = path.read_bytes()
    later = "says that its object's next access is record"
    cases = (
        (raw[:-5], "record 4 is cut short: 19 of 24 bytes; it is damaged, or no oracleGeneral"),
        (raw[:-24], f"record 1 of 4 {later} 5 of them: it is damaged, cut short"),
        (
            raw[:16] + b"\x03" + raw[17:],
            "record 2 of 5 has object 1, and an earlier one says that it is the next access of "
            "object 3: it is damaged",
        ),
        (raw[:40] + b"\x00" + raw[41:], f"record 1 of 5 {later} 0 of them: it is damaged"),
        (raw[:40] + b"\x09" + raw[41:], f"record 1 of 5 {later} 9 of them: it is damaged"),
        (
            raw[:40] + b"\xff" * 8 + raw[48:],
            "object 3 comes again in a record that no earlier one says to be its next access",
        ),
        (raw[:16] + b"\x05" + raw[17:], "record 4 of 5 is the next access of two earlier ones"),
        (raw[:76] + b"\x03" + raw[77:], "object 3 comes again in a record that no earlier"),
    )
    for spoilt, line in cases:
        path.write_bytes(spoilt)
        with pytest.raises(InputError) as caught:
            both(read_trace(path))
        assert str(caught.value).startswith(f"{path}: {line}")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chunk", [1, 7, 2**18])
@pytest.mark.parametrize("base", [0, 1])
def test_a_flip_of_oracle_general_is_found_or_changes_no_count(
    chunk: int, base: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.oracleGeneral"
    address = np.random.default_rng(4).integers(9, size=40)
    address[5], address[20] = 30, 31  # which come once: no next access is held against them
    write_trace(of_arrays(address), path)
    records = np.fromfile(path, oracle_general.RECORD)
    records["next"] -= (1 - base) * (records["next"] > 0)
    raw = records.tobytes()
    path.write_bytes(raw)
    caches = [Cache(capacity=room, policy=policy) for room in (2, 5) for policy in ("lru", "opt")]
    want = [replay(read_trace(path, chunk=chunk), cache).misses for cache in caches]
    found = 0
    for bit in range(0, 8 * len(raw), 13):
        spoilt = bytearray(raw)
        spoilt[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(spoilt)
        try:
            stream = read_trace(path, chunk=chunk)
            if bit % 5 == 0:
                assert [replay(stream, cache).misses for cache in caches] == want, bit
            else:
                objects = np.frombuffer(bytes(spoilt), oracle_general.RECORD)["object"]
                same = objects[:, None] == objects[None, :]
                assert (same == (address[:, None] == address[None, :])).all(), bit
        except InputError:
            found += 1
    assert found > 0.4 * 8 * len(raw) / 13


def test_oracle_general_that_counts_from_0_and_never_in_another_way(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    ends = (1, 4, 2**63 - 1, -1, -1)
    rows = zip([3, 3, 1, 4, 3], ends, strict=True)
    path.write_bytes(b"".join(struct.pack("<IQIq", 0, x, 7, later) for x, later in rows))
    assert both(read_trace(path))[0] == [3, 3, 1, 4, 3]


@pytest.mark.parametrize("name", FORMATS)
def test_foreign_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / ENDS[name]
    for start, what in (
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x1f\x8b", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
    ):
        path.write_bytes(start + bytes(30))
        with pytest.raises(InputError, match="record 0" if name == "iosim" else what):
            read_trace(path)
    path.write_bytes(np.random.default_rng(0).bytes(24 * 50))
    with pytest.raises(InputError, match=re.escape(str(path))):
        both(read_trace(path))


def test_our_format_is_known_by_its_beginning(tmp_path: Path) -> None:
    write_trace(flash2(), tmp_path / "x.iosim")
    (tmp_path / "x.iosim").rename(tmp_path / "trace")
    assert both(read_trace(tmp_path / "trace")) == both(flash2())
    with pytest.raises(InputError, match="a trace of iosim's own format, which is not csv"):
        read_trace(tmp_path / "trace", form="csv")
    with pytest.raises(InputError, match="says itself what its addresses are"):
        read_trace(tmp_path / "trace", line_words=4)


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_trace(tmp_path / "x.csv")
    with pytest.raises(InputError, match="it is not a file"):
        read_trace(tmp_path)
    with pytest.raises(InputError, match=r"tells no format of traces: let it end in .iosim"):
        write_trace(flash2(), tmp_path / "x.txt")
    with pytest.raises(InputError, match="No such file or directory"):
        write_trace(flash2(), tmp_path / "nowhere" / "x.csv")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        write_trace(flash2(), tmp_path / "x.csv")


@pytest.mark.parametrize("name", FORMATS)
def test_an_interrupted_run_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    def broken() -> Iterator[Accesses]:
        yield from of_arrays([1, 2, 3]).chunks()
        raise KeyboardInterrupt

    path = tmp_path / ENDS[name]
    path.write_text("as it was")
    with pytest.raises(KeyboardInterrupt):
        write_trace(Stream(broken, 4, 9), path)
    assert path.read_text() == "as it was"
    assert [x.name for x in tmp_path.iterdir()] == [path.name]


def test_a_stream_that_is_not_as_long_as_it_says(tmp_path: Path) -> None:
    for name in ("iosim", "oracleGeneral"):
        for length in (2, 9):
            with pytest.raises(InputError, match=f"a stream of {length} accesses ha"):
                write_trace(replace(of_arrays([1, 2, 3]), length=length), tmp_path / ENDS[name])
        assert not list(tmp_path.iterdir())


def test_a_killed_process_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    code = (
        "from iosim.cache import Stream, of_arrays; from iosim.cache.files import write_trace\n"
        "import time\n"
        "def slow():\n"
        "    yield from of_arrays([1, 2, 3]).chunks()\n"
        "    print('there', flush=True); time.sleep(60)\n"
        f"write_trace(Stream(slow, 4, 9), {str(tmp_path / 'x.iosim')!r})"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"there\n"
        os.kill(run.pid, signal.SIGKILL)
    assert not (tmp_path / "x.iosim").exists()


def test_libcachesim_reads_ours_and_we_read_its_own(tmp_path: Path) -> None:
    lcs = pytest.importorskip("libcachesim", reason="the extra peers is not installed")
    address = np.random.default_rng(3).zipf(1.3, 5000) % 300
    stream = of_arrays(address)
    ours, theirs, text = (tmp_path / x for x in ("ours.bin", "theirs.bin", "x.csv"))
    write_trace(stream, ours)
    write_trace(stream, text)
    asked = lcs.ReaderInitParam(
        ignore_obj_size=True,
        has_header=True,
        has_header_set=True,
        obj_id_is_num=True,
        obj_id_is_num_set=True,
    )
    asked.obj_id_field = 1
    reader = lcs.TraceReader(str(text), lcs.TraceType.CSV_TRACE, asked)
    lcs.libcachesim_python.convert_to_oracleGeneral(reader._reader, str(theirs))
    mine, its = (np.fromfile(path, oracle_general.RECORD) for path in (ours, theirs))
    for name in ("object", "size", "next"):
        assert (mine[name] == its[name]).all()
    assert both(read_trace(theirs)) == both(read_trace(ours)) == both(stream)
    for name, policy in (("LRU", "lru"), ("FIFO", "fifo"), ("Belady", "opt")):
        sizes = lcs.ReaderInitParam(ignore_obj_size=True)
        kind = lcs.TraceType.ORACLE_GENERAL_TRACE
        missed, _ = getattr(lcs, name)(cache_size=20).process_trace(
            lcs.TraceReader(str(ours), kind, sizes)
        )
        found = replay(stream, Cache(capacity=20, policy=policy)).misses
        assert found == round(missed * stream.length)
