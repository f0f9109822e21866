# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program of docs/guide/embed.md takes the file that ``linnet fit`` writes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not shutil.which("make") or not shutil.which("cc"), reason="no make or no C compiler")
def test_the_program_decides_with_a_fitted_model(linnet, tmp_path: Path) -> None:
    linnet("trace", "synth", "bs-c", "--seconds", 20, "-o", tmp_path / "traces")
    model = tmp_path / "bs-c.linnet"
    linnet("fit", "-t", tmp_path / "traces/bs-c.0.parquet", "--preset", "consumer-deep", "-o", model)
    done = subprocess.run(
        ["sh", ROOT / "tests/conformance/install.sh", tmp_path / "program", model],
        cwd=ROOT / "core",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
