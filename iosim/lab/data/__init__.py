"""What each view shows: a JSON value that a function of the view's module makes."""

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
