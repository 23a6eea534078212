"""GraphML, through networkx (the extra `optimal`)."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from iosim.base.errors import InputError, install
from iosim.pebbling.dag import short
from iosim.pebbling.graph_input import Drawn, drawn_from_networkx
from iosim.pebbling.readers._entry import Reader

SAYS = "write networkx.write_graphml of a DiGraph"


def read(name: str, text: str) -> Drawn:
    """The vertices and edges; networkx alone would make vertices that only edges name."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{name}:{error.position[0]}: not GraphML: {error}: {SAYS}") from None
    if root.tag.rpartition("}")[2] != "graphml":
        raise InputError(f"{name}:1: not GraphML, but <{root.tag}>: {SAYS}")
    ids = [node.get("id") for node in root.iter() if node.tag.rpartition("}")[2] == "node"]
    try:
        import networkx
    except ImportError:
        raise InputError(f"GraphML needs networkx: {install('optimal')}") from None
    try:
        graph = networkx.parse_graphml(text)
    except (networkx.NetworkXException, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{name} can't be read as GraphML: {error}") from None
    for id, times in Counter(ids).items():
        if times > 1:
            raise InputError(f"{name}: the vertex {short(id)} is there twice: remove one")
    for v in set(graph) - set(ids):
        raise InputError(f"{name}: unknown vertex {short(v)} in an edge: give it a <node>")
    return drawn_from_networkx(graph, name)


READER = Reader("graphml", SAYS, (".graphml", ".xml"), "<", read)
