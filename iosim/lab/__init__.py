"""The lab: schedules, bounds and games that can be watched and played, in a page or a notebook.

`iosim.lab.page` writes the page, `iosim.lab.data` has a module for each view that says what the
view shows, and `iosim/lab/front` is the source of what runs in the browser.  Nothing else of iosim
imports the lab.
"""
