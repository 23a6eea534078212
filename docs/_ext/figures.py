"""Figures: a click opens the figure by itself."""

from __future__ import annotations

import os
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri


class Zoom(SphinxPostTransform):
    """Makes every image of a page a link to a copy of its file."""

    # After images have been collected.
    default_priority = 900

    def run(self, **kwargs: object) -> None:
        """Wrap the images that no link holds."""
        if self.app.builder.format != "html":
            return
        here = self.app.builder.get_target_uri(self.env.docname)
        for image in list(self.document.findall(nodes.image)):
            if isinstance(image.parent, nodes.reference) or "://" in image["uri"]:
                continue
            drawn = Path(self.app.srcdir, image["uri"])
            name = os.path.relpath(drawn, self.app.srcdir).replace(os.sep, "-")
            target = Path(self.app.outdir, "_figures", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(drawn.read_bytes())
            uri = relative_uri(here, f"_figures/{name}")
            link = nodes.reference("", "", internal=False, refuri=uri, classes=["zoom"])
            link["reftitle"] = "Open the figure by itself"
            image.replace_self(link)
            link += image


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(Zoom)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
