"""The package as a whole: public names, docstrings and their examples, a light import."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import hgr_jax
from hgr_jax import causal, datasets, fairness, inference, kernels
from hgr_jax import sklearn as scores
from hgr_jax import torch as of_tensors
from hgr_jax._optional import EXTRAS, require
from hgr_jax.datasets import synthetic

PLOTS = ("plot_fit", "plot_correlations", "plot_history", "plot_predictions")


def public_objects() -> list[tuple[str, Any]]:
    """Functions and classes, with their full names."""
    promised = (hgr_jax, fairness, inference, kernels, datasets, scores, causal, of_tensors)
    named = {module: module.__all__ for module in promised} | {
        synthetic: ["sample"],
        importlib.import_module("hgr_jax.plotting"): PLOTS,
        inference.roys_root: ("log_survival", "quantile", "mean"),
    }
    every = [(f"{m.__name__}.{name}", getattr(m, name)) for m in named for name in named[m]]
    return [(name, value) for name, value in every if callable(value)]


def test_public_names_exist_and_are_sorted() -> None:
    assert list(hgr_jax.__all__) == sorted(hgr_jax.__all__)
    assert len(hgr_jax.__all__) <= 45
    for name in hgr_jax.__all__:
        assert not inspect.ismodule(getattr(hgr_jax, name))


@pytest.mark.parametrize(("name", "value"), public_objects(), ids=[n for n, _ in public_objects()])
def test_public_names_are_documented(name: str, value: object) -> None:
    assert value.__doc__, name
    if inspect.isclass(value):
        for attribute, member in vars(value).items():
            if not attribute.startswith("_") and (
                inspect.isfunction(member) or isinstance(member, property)
            ):
                assert member.__doc__, f"{name}.{attribute}"
    else:
        sections = {"Args:": inspect.signature(value).parameters, "Raises:": True, "Example:": True}
        for section in (name for name, wanted in sections.items() if wanted):
            assert section in value.__doc__, f"{name} has no section {section}"
        for parameter in inspect.signature(value).parameters:  # type: ignore[arg-type]
            assert parameter in value.__doc__, f"{name} does not explain {parameter}"


PACKAGE = Path(hgr_jax.__file__).parent
MODULES_WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if "  >>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES_WITH_EXAMPLES)
def test_examples_in_docstrings_run(module: str) -> None:
    if module == "torch":
        pytest.importorskip("torch", reason="the extra torch is not installed")
    if module == "causal":
        for package in ("causallearn", "pgmpy", "tigramite"):
            pytest.importorskip(package, reason="the extra causal is not installed")
    results = doctest.testmod(importlib.import_module(f"hgr_jax.{module}"))
    assert results.attempted > 0
    assert results.failed == 0


ROOT = Path(__file__).parent.parent
README = ROOT.joinpath("README.md").read_text(encoding="utf-8")
PYPROJECT = ROOT / "pyproject.toml"


def test_the_examples_in_the_readme_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, scanned, in_a_loss, given, trained = re.findall(
        r"```python\n(.*?)```", README, flags=re.DOTALL
    )
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        names: dict[str, Any] = {}
        exec(first, names)
        speed, drag = names["speed"], names["drag"]
        assert f"{np.corrcoef(speed, drag)[0, 1]:.2f}" in first
        assert f"# {hgr_jax.kb(speed, drag):.2f}" in first
        assert names["fit"].describe(("speed", "drag"))[:33] in first
        assert hgr_jax.kb_fit(speed, drag, h=2, k=1).f.formula("speed") in first
        assert hgr_jax.independence_test(speed, drag).pvalue < 1e-30
        exec(in_a_loss, names := {})
        assert names["hgr_jax"].kb(names["a"], names["b"]) > 0.99
        exec(given, names := {})
        x, y, cause = (names[name] for name in ("x", "y", "cause"))
        assert f"# {hgr_jax.independence_test(x, y).pvalue:.0e}" in given
        assert f"# {hgr_jax.independence_test(x, y, given=cause).pvalue:.2f}: the cause" in given
        exec(scanned, names := {})
        assert len(names["found"]) == 91
        assert (tmp_path / "wines.html").exists()
        assert "Not monotone" in capsys.readouterr().out
        exec(trained, {})
        header, _, after = capsys.readouterr().out.splitlines()
        assert header.split()[:2] == ["R2", "HGR-KB(5,"]
        assert float(after.split()[3]) < 0.4


def loaded_after(*statements: str) -> list[set[str]]:
    """The modules that a fresh process has loaded after each of some statements."""
    code = ["import sys"]
    for statement in statements:
        code += [statement, "print(*sys.modules)"]
    command = [sys.executable, "-W", "error", "-c", "\n".join(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_fairness_loads_scikit_learn_only_for_its_estimators_and_changes_no_setting() -> None:
    unchanged = "hgr_jax.kb, hgr_jax.scan; assert dict(jax.config.values) == before"
    needed, loaded, _ = loaded_after(_NEEDED, "import hgr_jax.fairness", unchanged)
    assert "hgr_jax.fairness" in loaded
    assert "flax" in loaded
    assert {"sklearn", "pandas", "matplotlib", "tqdm"} & loaded <= needed


_NEEDED = """
import warnings
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*JAXopt.*")
    import jax, jaxopt, flax.nnx, optax
before = dict(jax.config.values)
"""


def test_import_is_light_and_silent() -> None:
    heavy = {"flax", "optax", "pandas", "matplotlib", "sklearn", "scipy.stats", "torch", "tqdm"}
    heavy |= {"jaxopt", "scipy.optimize"}
    first, measures, scans, linear, solved = loaded_after(
        "import hgr_jax",
        "hgr_jax.kb, hgr_jax.hgr",
        "hgr_jax.scan",
        "hgr_jax.kb([1.0, 2.0, 3.0], [1.0, 0.0, 3.0], 1, 1)",
        "hgr_jax.kb([1.0, 2.0, 3.0], [1.0, 0.0, 3.0], 1, 2)",
    )
    assert "jax" not in first  # so that the command line can see to Ctrl-C before
    assert "jax" in measures
    assert not {name for name in measures if name.partition(".")[0] in ("scipy", "pyarrow")}
    assert heavy & scans == set()
    assert "jaxopt" not in linear
    assert "jaxopt" in solved


def test_version_is_that_of_the_distribution() -> None:
    try:
        installed = metadata.version("hgr_jax")
    except metadata.PackageNotFoundError:
        pytest.skip("hgr_jax is not installed, only on the path")
    assert hgr_jax.__version__ == installed


def test_each_optional_package_is_of_the_extra_that_is_declared() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    distributions = metadata.packages_distributions()
    for extra, packages in EXTRAS.items():
        named = {re.split(r"[\[<>=!]", r)[0] for r in project["optional-dependencies"][extra]}
        for package in packages:
            if package in distributions:
                assert named & set(distributions[package]), f"{package} is not of {extra}"


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    with pytest.raises(ImportError, match=r"needs absent, .*run: pip install absent$"):
        require("absent.module")
