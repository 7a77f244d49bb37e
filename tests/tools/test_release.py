"""Check releases: builds with the same bytes, markers of dependencies, weights."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hatch_build
from srs_eval.data import errors
from tests.conftest import PATIENCE, REPOSITORY
from tools import build, checksums, installed, platforms

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What Python says of itself there: sys_platform, platform_machine.
MACHINES = {
    "Linux x86-64": ("linux", "x86_64"),
    "Linux aarch64": ("linux", "aarch64"),
    "macOS Apple silicon": ("darwin", "arm64"),
    "macOS Intel": ("darwin", "x86_64"),
    "Windows x64": ("win32", "AMD64"),
    "Windows ARM64": ("win32", "ARM64"),
}


def find_requirements(system: str, lines: list[str]) -> dict[str, Requirement]:
    """Return the requirements of a system by name; no name may occur twice."""
    platform, machine = MACHINES[system]
    names = {"sys_platform": platform, "platform_machine": machine, "python_version": "3.12"}
    requirements = {}
    for requirement in map(Requirement, lines):
        if not requirement.marker or requirement.marker.evaluate(names):
            assert requirement.name not in requirements
            requirements[requirement.name] = requirement
    return requirements


@pytest.mark.parametrize("system", platforms.SYSTEMS)
def test_markers_leave_out_what_has_no_wheel(system: str) -> None:
    always = find_requirements(system, PROJECT["dependencies"])
    assert always["numba"].specifier.contains("0.62.1")
    assert always["numba"].specifier.contains("0.68.1") == (system != "macOS Intel")
    extras = PROJECT["optional-dependencies"]
    for module, (_, extra) in errors.EXTRAS.items():
        lacking = (module, *MACHINES[system]) in errors._WITHOUT_WHEEL
        assert (module in find_requirements(system, extras[extra])) != lacking


def test_all_systems_and_pythons_are_declared() -> None:
    assert set(platforms.SYSTEMS) == set(MACHINES)
    declared = {
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if ":: 3." in classifier
    }
    assert declared == set(platforms.PYTHONS)
    assert set(platforms.EXTRAS) == {extra for _, extra in errors.EXTRAS.values()}


def test_count_bytes_includes_files_and_their_bytecode(tmp_path: Path) -> None:
    (tmp_path / "thing-1.0.dist-info").mkdir()
    (tmp_path / "thing-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nLicense: MIT\n"
    )
    (tmp_path / "thing-1.0.dist-info" / "RECORD").write_text("thing.py,,\ngone.py,,\n")
    (tmp_path / "thing.py").write_bytes(b"x" * 70)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "thing.cpython-311.pyc").write_bytes(b"x" * 30)
    (distribution,) = installed.distributions(path=[str(tmp_path)])
    assert installed.count_bytes(distribution) == 100
    assert installed.find_licence(distribution) == "MIT"


def test_checksums_are_those_of_all_other_files(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.tar.gz").write_bytes(b"")
    for _ in range(2):  # the second time beside the first result
        lines = checksums.write_checksums(tmp_path).read_text().splitlines()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert lines[0] == f"{empty}  a.tar.gz"
    assert [line.split()[1] for line in lines] == ["a.tar.gz", "b.whl"]


def write_homepage(root: Path, homepage: str) -> None:
    folder = root / "srs_eval" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paths.py").write_text(f'VERSION = "1.2"\nHOMEPAGE = "{homepage}"\n')


def test_addresses_are_left_out_while_there_is_none(tmp_path: Path) -> None:
    write_homepage(tmp_path, "")
    assert hatch_build.find_urls(tmp_path) == {}
    write_homepage(tmp_path, "https://example.org/srs-eval")
    urls = hatch_build.find_urls(tmp_path)
    assert urls["Homepage"] == "https://example.org/srs-eval"
    assert all(url.startswith("https://example.org/srs-eval") for url in urls.values())


def test_tag_must_agree_with_the_files() -> None:
    wrong = build.find_unready_files("v0.0.0")
    assert any(sentence.startswith("The tag is v0.0.0, VERSION is ") for sentence in wrong)
    assert not any("CITATION.cff" in sentence for sentence in wrong)


@pytest.mark.slow
def test_build_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/build.py", "--out", str(tmp_path / "dist")],
        cwd=REPOSITORY,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
