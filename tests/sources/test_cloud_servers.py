"""Files of Google Cloud Storage and the Hugging Face Hub, by their own packages and a server here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiloss
from cloud_server import BUCKET, REPOSITORY, serving

PLACES = {"gs": ("gcsfs", f"gs://{BUCKET}"), "hf": ("huggingface_hub", f"hf://{REPOSITORY}")}
CODE = """
import json, sys
import epiloss

found = []
for address in sys.argv[1:]:
    try:
        result = epiloss.audit_table(address, label="y", score="p")
        found.append([result.n_samples, result.score.value])
    except epiloss.DataError as error:
        found.append(str(error))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("cloud")
    g = np.random.default_rng(0)
    scores = g.uniform(0.1, 0.9, 400)
    rows = pd.DataFrame(
        {"y": (g.random(400) < scores).astype(int), "p": scores, "x": g.normal(size=400)}
    )
    rows.to_csv(folder / "a.csv", index=False)
    rows.to_parquet(folder / "b.parquet", index=False)
    return {
        "scores/a.csv": (folder / "a.csv").read_bytes(),
        "scores/b.parquet": (folder / "b.parquet").read_bytes(),
        "lake/_delta_log/00000.json": b"{}",
        "lake/part.parquet": (folder / "b.parquet").read_bytes(),
    }


@pytest.mark.parametrize("scheme", PLACES)
def test_files_folders_and_patterns_are_read(
    scheme: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    package, root = PLACES[scheme]
    pytest.importorskip(package, reason="the extra 'remote' is not installed")
    names = ["scores/a.csv", "scores/b.parquet", "scores/*.csv", "none.csv", "lake/part.parquet"]
    with serving(files) as settings:
        run = subprocess.run(
            [sys.executable, "-c", CODE, *(f"{root}/{name}" for name in names)],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
            timeout=120,
        )
    *read, missing, lake = json.loads(run.stdout.splitlines()[-1])
    for name in ("a.csv", "b.parquet"):
        (tmp_path / name).write_bytes(files[f"scores/{name}"])
    expected = [
        [400, epiloss.audit_table(str(tmp_path / name), label="y", score="p").score.value]
        for name in ("a.csv", "b.parquet", "a.csv")
    ]
    assert read == expected
    assert missing == f"no file '{root}/none.csv'. Check the address."
    assert "is a remote Delta, Iceberg or Hudi table" in lake
