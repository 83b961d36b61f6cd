"""How docstrings become pages.

Formulas and types are shown as they are written, and members of other packages are left out.
"""

from __future__ import annotations

import enum
import inspect
import re
from typing import Any

from sphinx.application import Sphinx


def show_formulas(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make a literal block of what is indented by four or more after an empty line.

    Elsewhere ``|x|`` and ``f_-F`` are what they look like, and no reStructuredText.
    """
    # Napoleon takes what is before a colon for the type of a property; an empty comment has none.
    shown: list[str] = ["..", ""] if what == "property" else []
    outer, literal = 0, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip():
            if indent < outer + 4:
                outer, literal = indent, False
            elif not literal and shown and not shown[-1].strip():
                shown += [" " * outer + ".. code-block:: text", ""]
                literal = True
        shown.append(line if literal or ">>>" in line else as_text(line))
    lines[:] = shown


def as_text(line: str) -> str:
    """Escape, outside double backticks, what would be a substitution or a reference."""
    parts = re.split(r"(``.*?``)", line)
    parts[::2] = [re.sub(r"\||(?<=\w)_(?=-)", r"\\\g<0>", text) for text in parts[::2]]
    return "".join(parts)


class Written:
    """What shows itself as a text, in a signature."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature_as_written(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Return the signature with the names of its types, of which Sphinx would show what they are.

    None leaves it to Sphinx.
    """
    if what == "class":
        obj = vars(obj).get("__init__")
    if what not in ("function", "method", "class") or not callable(obj):
        return None
    found = inspect.signature(obj)
    parameters = [
        parameter.replace(
            annotation=as_annotation(parameter.annotation), default=as_default(parameter.default)
        )
        for parameter in found.parameters.values()
        if parameter.name != "self" and not parameter.name.startswith("_")
    ]
    plain = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return str(plain), "" if what == "class" else str(as_annotation(found.return_annotation))


def as_annotation(value: Any) -> Any:
    """Return what shows an annotation as it is in the source."""
    return Written(value.replace("npt.", "")) if isinstance(value, str) else value


def as_default(value: Any) -> Any:
    """Return what shows a default without its place in memory."""
    named = callable(value) and hasattr(value, "__name__") and not isinstance(value, type)
    return Written(value.__name__) if named else value


def skip_foreign_members(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from other packages; leave in the values of an enumeration.

    None leaves the choice to Sphinx, which skips what has no docstring.
    """
    if isinstance(obj, enum.Enum):
        return False
    defined = getattr(obj, "fget", None) or obj
    module = getattr(defined, "__module__", None) or ""
    return None if module.split(".")[0] == "hgr_jax" else True


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before napoleon, which makes lists of the sections."""
    app.connect("autodoc-process-docstring", show_formulas, priority=400)
    app.connect("autodoc-process-signature", signature_as_written)
    app.connect("autodoc-skip-member", skip_foreign_members)
    return {"parallel_read_safe": True}
