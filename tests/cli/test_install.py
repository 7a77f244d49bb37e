"""Check the wheel where neither PyTorch nor other optional packages are installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from srs_eval.data.paths import VERSION
from tests.conftest import PATIENCE
from tools.simulated import simulate_learner, write_collection, write_dataset

REPOSITORY = Path(__file__).resolve().parents[2]
EXTRAS = {"torch", "pyarrow", "pandas", "distributed", "dask", "huggingface_hub"}
TESTS = {"statsmodels", "anki", "hypothesis"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(out), str(REPOSITORY)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the wheel and the packages installed here, without the extras."""
    home = tmp_path_factory.mktemp("without-extras") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    paths = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)})
    site = Path(paths["purelib"])
    for source in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(source).iterdir():
            ours = entry.name.startswith(("srs_eval", "_editable_impl_srs_eval", "__editable__"))
            if not ours and re.split("[-.]", entry.name)[0] not in EXTRAS | TESTS:
                (site / entry.name).symlink_to(entry)
    zipfile.ZipFile(wheel).extractall(site)
    return Path(paths["scripts"]) / Path(sys.executable).name


def srs_eval(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(python),
        "-c",
        "import sys; from srs_eval.cli.main import main; sys.exit(main())",
    ]
    return subprocess.run(
        [*command, *arguments], cwd=python.parent, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.slow
def test_the_wheel_has_all_it_needs_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = REPOSITORY / "srs_eval"
    sources = {
        path.relative_to(REPOSITORY).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources <= names
    assert not {name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))}


@pytest.mark.slow
def test_wheel_without_extras_runs_models_that_need_none(python: Path, tmp_path: Path) -> None:
    assert srs_eval(python, "--version").stdout.startswith(f"srs-eval {VERSION}, Python 3.")
    collection = tmp_path / "collection.anki2"
    write_collection(simulate_learner(seed=3, reviews=1500), collection)
    run = srs_eval(python, "run", str(collection), "--models", "LSTM,Transformer,AVG,SM2")
    assert run.returncode == 0, run.stderr
    assert "average" in run.stdout
    assert "LSTM" in run.stdout
    assert run.stderr.count("needs PyTorch: pip install 'srs-eval[networks]'") == 1
    listed = json.loads(srs_eval(python, "models", "--json", "-").stdout)["models"]
    needy = {model["model"] for model in listed if "networks" in model["needs"]}
    assert needy == {"Transformer"}
    assert "pip install 'srs-eval[networks]'" in srs_eval(python, "models", "transformer").stdout
    page = tmp_path / "report.html"
    report = srs_eval(python, "export", str(collection), "--models", "fast", "--html", str(page))
    assert (report.returncode, page.is_file()) == (0, True), report.stderr
    write_dataset({1: simulate_learner(3, 300)}, tmp_path / "data")
    read = srs_eval(python, "inspect", str(tmp_path / "data"))
    assert (read.returncode, "pip install 'srs-eval[parquet]'" in read.stderr) == (2, True)
