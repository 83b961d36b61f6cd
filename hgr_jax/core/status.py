"""The outcomes of a fit."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """The outcome of a fit; ``KBFit.message`` says it in words."""

    OPTIMAL = 0
    """The global maximum."""
    TIED = 1
    """The maximum, which several pairs of transformations reach."""
    NOT_CONVERGED = 2
    """The solver stopped before its conditions held."""
    ILL_CONDITIONED = 3
    """No well-conditioned basis was found: the value may be too low."""
    CONSTANT = 4
    """A variable does not vary, or only with what is given: the value is 0."""
    NOT_FINITE = 5
    """NaN or infinity in data or weights: the value is NaN."""
    ONE_ROW = 6
    """The maximum, of which one row makes a large part: f and g single it out."""


MESSAGES = {
    Status.OPTIMAL: "optimal: the correlation is the global maximum over the two kernels",
    Status.TIED: (
        "optimal, but several pairs of transformations reach the same correlation:"
        " f and g are one choice among them"
    ),
    Status.ONE_ROW: (
        "optimal, but f and g single out one row, fit.influential_row, which makes a large part of"
        " the correlation, fit.leverage of it: compare with ranks, or without that row"
    ),
    Status.NOT_CONVERGED: (
        "the solver stopped before the optimality conditions held to rounding;"
        " compare with solver='svd', or use float64"
    ),
    Status.ILL_CONDITIONED: (
        "no well-conditioned basis was found for these degrees (far outliers, or features that"
        " nearly depend on each other): the correlation may be too low; use lower degrees,"
        " a rank transform, or float64"
    ),
    Status.CONSTANT: (
        "a or b does not vary over the rows of positive weight, or what is given explains all of"
        " it: the correlation is 0"
    ),
    Status.NOT_FINITE: (
        "NaN or infinity in a, b or what is given, a negative or NaN weight, or none above 0"
        " (or degrees too high for the digits of the data): the correlation is NaN"
    ),
}
