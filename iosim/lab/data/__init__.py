"""The data of each view of the lab: one module each, whose function returns a JSON value.

`DATA` names these functions; `iosim.lab.page`, `iosim.lab.export` and `iosim.lab.widget` call them.
`traced` writes sizes and bounds down as formulas that the page evaluates, `fusing` prepares the
graphs of the wall, and `committed` reads and writes data that take long to make: ``wall.json.gz``
and ``hardware.json.gz``.  A new view is a module here and a line in `DATA` (docs/lab.md).

Changing files here: the keys are typed in the view's ``data.ts`` in ``iosim/lab/front/src/views``;
change both together.  Compute nothing that another wing computes: call it.  After a change of
machines, layers or records, run ``python -m iosim.lab.data.wall`` or ``…hardware``; tests in
``tests/lab`` fail until then.  ``NaN`` and infinity aren't JSON, so use None.
"""

from __future__ import annotations

# View → where the function is that makes its data.  The order is that of the tabs.
DATA: dict[str, str] = {
    "watch": "iosim.lab.data.watch:data",
    "slope": "iosim.lab.data.slope:data",
    "tiles": "iosim.lab.data.tiles:data",
    "pebbles": "iosim.lab.data.pebbles:data",
    "wall": "iosim.lab.data.wall:data",
    "hardware": "iosim.lab.data.hardware:data",
}
