"""How numbers, dates and times of a column are written, so that other files can be read alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

DATE_ORDERS = {
    "": "",
    "iso": " (year-month-day)",
    "zone": " (year-month-day, with a time zone)",
    "ymd": " (year, month, day)",
    "mdy": " (month, day, year)",
    "dmy": " (day, month, year)",
    "name": " (with the name of the month)",
}
"""Of year, month and day, and how it is said."""

COMMA = " (a decimal comma)"
HOURS = " (hours since midnight)"


@dataclasses.dataclass(frozen=True)
class Form:
    """How a column of numbers, dates or times is written.

    Attributes:
      kind: ``numbers`` (true and false too), ``dates``, or ``times`` of day.
      point: the decimal point of numbers; ``""`` if none of them shows it.
      thousands: ``,`` or ``.`` if it stands between thousands, else ``""``.
      order: of dates, one of `DATE_ORDERS`; ``""`` for dates that were no texts.
    """

    kind: str
    point: str = ""
    thousands: str = ""
    order: str = ""

    def __str__(self) -> str:
        if self.kind == "dates":
            return self.kind + DATE_ORDERS[self.order]
        if self.kind == "times":
            return self.kind + HOURS
        return self.kind + (COMMA if self.point == "," else "")

    def with_point(self, point: str) -> Form:
        """Return the form with another decimal point; what is then no point is for thousands."""
        if self.kind != "numbers":
            return self
        return dataclasses.replace(self, point=point, thousands="," if point == "." else ".")

    def described(self) -> dict[str, str]:
        """Return what `form_of` takes."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value}


def form_of(description: Mapping[str, Any]) -> Form:
    """Return a form that was described.

    Raises:
      ValueError: if it is none.
    """
    form = Form(**description)
    known = form.kind in ("numbers", "dates", "times") and form.order in DATE_ORDERS
    if not known or {form.point, form.thousands} - {"", ".", ","}:
        raise ValueError(f"{dict(description)} is no form of numbers, dates or times")
    return form
