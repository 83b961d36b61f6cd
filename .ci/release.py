"""Check what a release would hold: ``python .ci/release.py CORE_TEST ...``.

The sdist and the wheel are built from the last commit, without what is not in it; the sdist must
build the same wheel.  The wheel is then installed in each Python from 3.11 at hand, in an
environment of its own, where the demo and the tests of the core run away from the repository.
"""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = [f"3.{minor}" for minor in range(11, 20)]


def run(*command: object, cwd: Path) -> str:
    """Run a command; show what it printed only where it fails."""
    words = [str(word) for word in command]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def build(source: Path, kind: str, into: Path) -> Path:
    """Build the sdist or the wheel of a source tree."""
    run(sys.executable, "-m", "build", f"--{kind}", "--outdir", into, source, cwd=into.parent)
    (built,) = into.iterdir()
    return built


def pythons() -> dict[str, str]:
    """Return the interpreters at hand, by version: those on the path, and those of pyenv."""
    found = {}
    for version in VERSIONS:
        names = [shutil.which(f"python{version}")]
        names += map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for name in filter(None, names):
            told = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if told.startswith(f"Python {version}."):
                found[version] = name
    return found


def check_in(python: str, wheel: Path, source: Path, folder: Path, tests: list[str]) -> str:
    """Install a wheel in a new environment, and run the demo and tests with it."""
    run(python, "-m", "venv", folder / "venv", cwd=folder)
    inside = folder / "venv" / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", f"{wheel}[cli,test]", cwd=folder)
    run(folder / "venv" / "bin" / "hgr-jax", "demo", cwd=folder)
    for name in ("pyproject.toml", "tests", "bench"):  # but not the package itself
        (folder / name).symlink_to(source / name)
    report = run(inside, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *tests, cwd=folder)
    return report.strip().splitlines()[-1]


def main(tests: list[str]) -> None:
    """Build, compare, install and try."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        archive = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        for name in ("tree", "sdist", "wheel", "again"):
            (folder / name).mkdir()
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder / "tree", filter="data")
        sdist = build(folder / "tree", "sdist", folder / "sdist")
        wheel = build(folder / "tree", "wheel", folder / "wheel")
        with tarfile.open(sdist) as tar:
            tar.extractall(folder, filter="data")
        source = folder / sdist.name.removesuffix(".tar.gz")
        again = build(source, "wheel", folder / "again")
        digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (wheel, again)}
        if len(digests) > 1:
            raise SystemExit("the sdist builds another wheel than the repository")
        print(f"{sdist.name} builds {wheel.name}, as the repository does", flush=True)
        metadata = run(sys.executable, "-m", "zipfile", "-l", wheel, cwd=folder)
        print(f"{len(metadata.splitlines()) - 1} files, {wheel.stat().st_size / 1e6:.1f} MB")
        for version, python in pythons().items():
            (folder / version).mkdir()
            print(f"Python {version}: the demo runs;", end=" ", flush=True)
            print(check_in(python, wheel, source, folder / version, tests), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
