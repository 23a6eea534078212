"""Files that people write, read with one line for whatever is wrong with them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from iosim.errors import InputError


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a TOML file says.  Raises InputError where it can't be read."""
    try:
        if not Path(path).is_file():
            what = "it is no file" if Path(path).exists() else "there is no such file"
            raise InputError(f"cannot read {str(path)!r} as TOML: {what}")
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"cannot read {str(path)!r} as TOML: {why}") from error
