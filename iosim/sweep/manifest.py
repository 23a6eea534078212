"""The manifest of a sweep's directory: what the directory holds, with a checksum of its own.

`iosim.sweep.folder` writes and reads it; ``iosim plot`` looks for it to tell a sweep from other
directories.  Users' folders must stay readable, so give a new field a default.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError, IosimError
from iosim.base.reading import parse
from iosim.base.rows import Row, Values
from iosim.core.counting.show import show
from iosim.core.program.canonical import canonical
from iosim.sweep.files import Damaged, read_regular
from iosim.sweep.grid import Block, Sweep
from iosim.sweep.work import schema

MANIFEST = "sweep.json"
FORMAT = 2


def declared(sweep: Sweep) -> Row:
    """The manifest of a sweep."""
    return _summed(
        {
            "kind": "sweep",
            "id": sweep.id,
            "points": sweep.points,
            "shards": sweep.shards,
            "sweep": sweep.as_dict(),
            "programs": {b.name: _block_to_dict(b) for b in sweep.blocks()},
            "columns": columns(schema(sweep)),
        }
    )


def combined() -> Row:
    """The manifest of combined rows."""
    return _summed({"kind": "combined"})


def read_manifest(folder: Path) -> Row:
    """What a directory's manifest says.

    Raises InputError for a directory that has none, that an older iosim wrote, or whose manifest
    is damaged; IosimError where it cannot be read.
    """
    file = folder / MANIFEST
    manifest: Any = None
    try:
        manifest = parse(read_regular(file).decode(), "JSON")
        reason = _wrong(manifest)
    except (FileNotFoundError, NotADirectoryError):
        if (folder / "rows").is_dir():
            raise InputError(
                f"{str(folder)!r} has lost its {MANIFEST}: the iosim sweep command that filled it "
                "writes it again and keeps the shards"
            ) from None
        what = "holds no sweep" if folder.is_dir() else "is not a directory, so it holds no sweep"
        raise InputError(f"{str(folder)!r} {what}: give one that iosim sweep wrote") from None
    except OSError as error:
        raise IosimError(f"cannot read {str(file)!r} ({error.strerror})") from error
    except (UnicodeDecodeError, InputError, Damaged) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
    if reason == _OLD:
        raise InputError(
            f"{str(folder)!r} is of an older iosim, whose rows have no checksums and other hashes: "
            "sweep into a new directory (pandas and DuckDB still read its shards)"
        )
    if reason:
        raise InputError(
            f"{str(file)!r} is damaged ({reason[:120]}): move it away and give the iosim sweep "
            "command that filled the directory again, which keeps the shards"
        )
    return dict(manifest)


def _block_to_dict(block: Block) -> Row:
    """A schedule in a manifest: its hash, its listing for people, and what was hashed."""
    return {
        "hash": block.hash,
        "text": show(block.program),
        "program": json.loads(canonical(block.program)),
    }


def columns(fields: Any) -> dict[str, str]:
    """Column → type, of an Arrow schema."""
    return {field.name: str(field.type) for field in fields}


def _summed(told: Row) -> Row:
    told = {"format": FORMAT, **told}
    return told | {"sha256": _checksum(told)}


def _checksum(told: Values) -> str:
    """Of a manifest without its checksum."""
    rest = {k: v for k, v in told.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


_OLD = "old"


def _wrong(told: Any) -> str:
    """What is wrong with a manifest; `_OLD` for one of an older format, and "" for nothing."""
    if not isinstance(told, dict):
        return "it is not an object"
    if "sha256" not in told and (
        told == {"kind": "combined"} or {"kind", "id", "sweep", "programs"} <= told.keys()
    ):
        return _OLD
    if told.get("sha256") != _checksum(told):
        return "its checksum is wrong"
    if told.get("format") != FORMAT:
        return f"format {told.get('format')!r} is not {FORMAT}"
    return ""
