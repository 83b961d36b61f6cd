"""Print the oldest release that each direct dependency may have, as constraints for pip.

``python .ci/oldest.py EXTRA ...`` reads pyproject.toml, and takes what the package needs with these
extras.  Of a name that is declared twice, the higher minimum counts.
"""

import re
import sys
import tomllib
from pathlib import Path

MINIMUM = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?\s*(?:>=|==)\s*([\w.]+)")


def oldest(project: dict, extras: list[str]) -> dict[str, str]:
    """Return the least version of each dependency, by name."""
    found: dict[str, str] = {}
    waiting, seen = [*project["dependencies"]], set()
    for extra in extras:
        waiting += project["optional-dependencies"][extra]
    while waiting:
        requirement = waiting.pop()
        own = re.match(rf"{project['name']}\[([\w,]+)\]", requirement)
        if own:
            for extra in {*own[1].split(",")} - seen:
                seen.add(extra)
                waiting += project["optional-dependencies"][extra]
            continue
        match = MINIMUM.match(requirement)
        if match is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} declares no least version")
        name, version = match.groups()
        found[name] = max(version, found.get(name, "0"), key=_as_numbers)
    return found


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = project["requires-python"].removeprefix(">=")
    if sys.version_info[:2] != _as_numbers(least):
        raise SystemExit(f"the oldest Python is {least}: make test-oldest PYTHON=python{least}")
    for name, version in sorted(oldest(project, sys.argv[1:]).items()):
        print(f"{name}=={version}")
