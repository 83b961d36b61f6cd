"""The house: imports point one way, and a name means one thing."""

from __future__ import annotations

import ast
import collections
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import hgr_jax
from hgr_jax import torch

PACKAGE = Path(hgr_jax.__file__).parent
LAYERS = (
    {
        "_archive",
        "_arrays",
        "_checks",
        "_files",
        "_limits",
        "_optional",
        "_progress",
        "_texts",
        "_threads",
        "_version",
    },
    {"core"},
    {"kernels", "measures", "tables"},
    {"plotting", "torch"},
    {"inference"},
    {"causal", "datasets", "fairness", "scanning", "sklearn"},
    {"__init__", "__main__", "cli"},
)
"""From the bottom; a room imports from its own layer and from those below."""


MAX_PARAMETERS = 8

BUDGETS = {
    "core": 7_304,
    "measures": 2_888,
    "inference": 4_188,
    "tables": 5_311,
    "scanning": 7_769,
    "cli": 1_336,
    "fairness": 3_697,
    "datasets": 197,
}
"""Most lines of rooms: lowered as they shrink, never raised."""

PROMISED = ("measures", "inference", "fairness", "datasets", "kernels", "sklearn", "causal")
PUBLIC = {"__init__", *hgr_jax.__all__}
PUBLIC |= {n for name in PROMISED for n in importlib.import_module(f"hgr_jax.{name}").__all__}
"""Functions and classes that users call: their options are theirs."""


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def layer(module: str) -> int:
    return next(i for i, rooms in enumerate(LAYERS) if room(module) in rooms)


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that a tree imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute, so that this test can read them"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in SOURCES else str(node.module) for name in names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "hgr_jax")


EDGES = {name: sorted(set(imports(tree)) - {name}) for name, tree in TREES.items()}


def test_every_room_is_in_a_layer() -> None:
    rooms = {room(module) for module in SOURCES}
    assert rooms == set.union(*LAYERS)


def test_imports_point_downward() -> None:
    upward = [
        f"{module} imports {other}"
        for module, others in EDGES.items()
        for other in others
        if layer(other) > layer(module)
    ]
    assert upward == []


def test_one_module_imports_jaxopt() -> None:
    """Which nobody maintains."""
    texts = {module: ast.unparse(tree) for module, tree in TREES.items()}
    found = [module for module, text in texts.items() if "import jaxopt" in text]
    assert found == ["hgr_jax.core.paper"]


def test_no_circles() -> None:
    """Modules are taken away that import none of those left, until none is."""
    # What a package's own __init__ gathers is imported from where it is defined.
    left = {name: [o for o in others if o in EDGES] for name, others in EDGES.items()}
    while True:
        done = {name for name, others in left.items() if not set(others) & left.keys()}
        if not done:
            break
        left = {name: others for name, others in left.items() if name not in done}
    assert sorted(left) == []


def defined_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = itertools.chain.from_iterable(map(ast.walk, targets))  # of tuples too
            yield from (name.id for name in names if isinstance(name, ast.Name))


@pytest.mark.parametrize("name", BUDGETS)
def test_a_room_keeps_its_budget(name: str) -> None:
    lines = [
        len(path.read_text(encoding="utf-8").splitlines())
        for module, path in SOURCES.items()
        if room(module) == name
    ]
    assert sum(lines) <= BUDGETS[name]


def test_a_name_is_defined_once() -> None:
    homes = collections.defaultdict(list)
    for module, tree in TREES.items():
        for name in set(defined_names(tree)):
            if not name.startswith("__") and name != "_LAZY":
                homes[name].append(module)
    for name in torch.__all__:  # measures of tensors are named as those of arrays
        homes[name].remove("hgr_jax.torch")
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


FILES = [*SOURCES.values(), *Path(__file__).parent.glob("*.py")]
FILES += [path for path in (PACKAGE.parent / "bench").rglob("*.py") if path.stem != "__init__"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_say_what_they_hold(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


ROOMS = [module for module, path in SOURCES.items() if path.stem == "__init__"]


@pytest.mark.parametrize("name", sorted(set(ROOMS) - {"hgr_jax"}))
def test_a_room_has_a_map(name: str) -> None:
    """The docstring of a room names each of its modules that is not private, in a line."""
    text = ast.get_docstring(TREES[name]) or ""
    modules = [m for m in SOURCES if m.rpartition(".")[0] == name]
    public = [m.rpartition(".")[2] for m in modules if not m.rpartition(".")[2].startswith("_")]
    assert [m for m in public if f"`{m}`" not in text] == []


def test_functions_have_few_parameters() -> None:
    """Below the public face; more than 8 want a noun."""
    public = {
        id(method)
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in PUBLIC
        for method in node.body
    }
    wide = [
        f"{module}.{node.name}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name not in PUBLIC
        and id(node) not in public
        and len(node.args.args) + len(node.args.kwonlyargs) > MAX_PARAMETERS
    ]
    assert wide == []
