"""The hierarchical roofline of operators, graphs and models: how long each takes at least, and why.

Nothing here decides what moves: `iosim.models.layers.traffic` counts words at a boundary, and this
package divides bytes by the speed of that same boundary.
"""
