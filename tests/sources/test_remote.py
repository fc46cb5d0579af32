"""Files by their addresses, from servers of this machine: the same result as the files themselves."""

from __future__ import annotations

import errno
import functools
import gzip
import json
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from joblib import Parallel, delayed
from pyarrow import csv, feather, parquet

import epiloss
from epiloss.sources import files, remote
from epiloss.sources.addresses import is_remote, local_name, shown, without_secrets
from epiloss.sources.files import open_files
from interrupts import restore_ctrl_c

N = 3_000
_g = np.random.default_rng(0)
P = _g.random(N)
TABLE = pa.table(
    {
        "y": (_g.random(N) < P).astype(int),
        "p": P,
        "x": _g.normal(size=N),
        "sex": np.where(_g.random(N) < 0.5, "f", "m"),
        "ballast": _g.normal(size=N),
    }
)


def audit(source: Any, **options: Any) -> dict[str, Any]:
    given = {"label": "y", "score": "p", "exclude": "ballast", "method": "partition", **options}
    return epiloss.audit_table(source, **given).to_dict()


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return audit(TABLE)


def write_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(TABLE, folder / "t.parquet", row_group_size=500)
    csv.write_csv(TABLE, folder / "t.csv")
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    lines = "".join(json.dumps(row) + "\n" for row in TABLE.to_pylist())
    (folder / "t.jsonl").write_text(lines)
    feather.write_feather(TABLE, folder / "t.feather")
    for country in ("fr", "de"):
        inside = folder / "parts" / f"country={country}"
        inside.mkdir(parents=True)
        half = TABLE.slice(0, N // 2) if country == "fr" else TABLE.slice(N // 2)
        parquet.write_table(half, inside / "part.parquet")
    (folder / "parts" / "_SUCCESS").write_text("")


FORMATS = ["t.parquet", "t.csv", "t.csv.gz", "t.jsonl", "t.feather"]


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, with parts of files if it is to, and notes what it is asked for."""

    server: Server

    def log_message(self, *_: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path}")

    def do_GET(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if self.server.status:
            self.send_error(self.server.status)
        elif self.server.slow:
            time.sleep(60)
        elif path.is_file() and (self.server.cut or (wanted and self.server.ranges)):
            self._send(path.read_bytes(), wanted)
        else:
            super().do_GET()

    def _send(self, data: bytes, wanted: re.Match[str] | None) -> None:
        total = len(data)
        if wanted:
            data = data[int(wanted[1]) : int(wanted[2]) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {wanted[1]}-{wanted[2]}/{total}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.server.sent += len(data)
        self.wfile.write(data[: len(data) // 2] if self.server.cut else data)

    def copyfile(self, source: Any, outputfile: Any) -> None:
        try:
            super().copyfile(source, outputfile)
        except ConnectionError:
            self.close_connection = True  # a client that wanted a part goes away


class Server(ThreadingHTTPServer):
    """A server of this machine that can be told to misbehave."""

    daemon_threads = True
    ranges, cut, slow, status, sent = True, False, False, 0, 0

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self.asked: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    pytest.importorskip("aiohttp", reason="the extra 'remote' is not installed")
    pytest.importorskip("fsspec", reason="the extra 'remote' is not installed")
    write_all(tmp_path / "www")
    with Server(tmp_path / "www") as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as one that is too large to be kept."""
    monkeypatch.setattr(files, "SMALL", 0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAUSE", 0.01)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# addresses


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_file_address_is_a_path(host: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    write_all(tmp_path / "my data")
    address = f"file://{host}{tmp_path}/my%20data/"
    assert audit(f"{address}t.csv") == expected
    assert audit([f"{address}t.csv"]) == expected
    assert audit(f"{address}parts", exclude=["ballast", "country"]) == expected
    assert audit(f"{address}parts/*/*.parquet", exclude=["ballast", "country"]) == expected


def test_the_command_line_takes_a_file_address_and_does_not_overwrite_it(tmp_path: Path) -> None:
    write_all(tmp_path)
    command = [sys.executable, "-m", "epiloss", "audit", f"file://{tmp_path}/t.csv", "--label", "y"]
    command += ["--score", "p", "--method", "partition", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    over = [*command, "--output", str(tmp_path / "t.csv"), "--force"]
    done = subprocess.run(over, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "outputs must not be inputs" in done.stderr) == (2, True)


@pytest.mark.parametrize("address", ["file://elsewhere/a.csv", "file://", "file:///"])
def test_a_file_address_without_a_path_is_refused(address: str) -> None:
    with pytest.raises(epiloss.DataError, match="file:// must be followed by an absolute path"):
        audit(address)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/a.csv",
        "memory://a.csv",
        "github://org:repo@/a.csv",
        "reference://a",
        "s3://bucket/a.csv::file:///etc/passwd",
        "zip://a.csv::http://host/a.zip",
        "python://os",
    ],
)
def test_addresses_of_other_kinds_and_chains_are_refused(address: str) -> None:
    with pytest.raises(epiloss.DataError, match="addresses must begin with") as told:
        audit(address)
    assert "\n" not in str(told.value)


def test_a_file_that_is_called_like_an_address_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3:").mkdir()
    csv.write_csv(TABLE, tmp_path / "s3:" / "a.csv")
    monkeypatch.chdir(tmp_path)
    assert not is_remote("s3://a.csv")
    assert audit("s3://a.csv")["n_samples"] == N


def test_what_may_be_secret_is_not_shown() -> None:
    address = "https://me:sesame@host/a.csv?token=abc"
    assert shown(address) == "https://host/a.csv?..."
    said = without_secrets(f"403 at {address}, token=abc, user me:sesame, sesame", address)
    assert "sesame" not in said
    assert "abc" not in said
    assert local_name(Path("a.csv")) == Path("a.csv")


# http


@pytest.mark.parametrize("name", FORMATS)
def test_a_small_file_is_fetched_once(name: str, server: Server, expected: dict[str, Any]) -> None:
    assert audit(f"{server.address}/{name}") == expected
    assert server.asked == [f"HEAD /{name}", f"GET /{name}"]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_a_large_file_is_fetched_for_each_pass_and_leaves_nothing(
    name: str, ranges: bool, server: Server, expected: dict[str, Any], scratch: Path
) -> None:
    server.ranges = ranges
    assert audit(f"{server.address}/{name}") == expected
    assert not list(scratch.iterdir())


@pytest.mark.usefixtures("large")
def test_of_a_parquet_file_only_the_columns_and_row_groups_that_are_read_are_fetched(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_GAP", 0)
    monkeypatch.setattr(files, "PART_ROWS", 500)
    monkeypatch.setattr("epiloss.sources.parquet._FOOTER", 16)
    source = open_files(f"{server.address}/t.parquet")
    assert len(source.parts) == N // 500
    server.sent = 0
    (batch,) = source.parts[2].batches(["y"])
    assert batch.column("y").to_pylist() == TABLE["y"].slice(1_000, 500).to_pylist()
    whole = parquet.read_metadata(Path(server.RequestHandlerClass.keywords["directory"], "t.parquet"))  # type: ignore[attr-defined]
    stored = whole.row_group(2).column(0).total_compressed_size
    assert server.sent <= stored + whole.serialized_size + 1_000


def test_a_pattern_and_a_folder_of_a_page_are_listed(server: Server, expected: dict[str, Any]) -> None:
    options = {"exclude": ["ballast", "country"]}
    assert audit(f"{server.address}/parts/*/*.parquet", **options) == expected
    assert audit(f"{server.address}/parts/", **options) == expected
    found = open_files(f"{server.address}/parts/")
    assert found.schema.field("country").type == pa.string()


def test_a_page_that_lists_files_elsewhere_is_not_followed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Server(tmp_path / "other") as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        links = [
            f"{other.address}/a.csv",
            f"{server.address}/t.csv",
            "../../t.csv",
            "file:///etc/passwd",
        ]
        page = "".join(f"<a href='{link}'>a</a>" for link in links)
        trap = Path(server.RequestHandlerClass.keywords["directory"], "trap")  # type: ignore[attr-defined]
        trap.mkdir()
        (trap / "index.html").write_text(page)
        with pytest.raises(epiloss.DataError, match="no file"):
            audit(f"{server.address}/trap/*.csv")
        other.shutdown()
        assert other.asked == []
    assert not any("t.csv" in one for one in server.asked)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_server_that_refuses_is_told_in_one_sentence_without_secrets(
    status: int, server: Server
) -> None:
    server.status = status
    address = server.address.replace("//", "//me:sesame@")
    with pytest.raises(epiloss.DataError, match=r"no file|cannot be fetched") as told:
        audit(f"{address}/missing.csv?token=abc123")
    said = str(told.value)
    assert "\n" not in said
    assert "abc123" not in said
    assert "sesame" not in said


def test_a_server_that_does_not_answer_is_told(server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(
        epiloss.DataError, match=r"cannot be fetched: .*Check the address, the connection"
    ):
        audit(f"{server.address}/t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_that_is_cut_off_is_told(name: str, server: Server) -> None:
    server.cut = True
    with pytest.raises(epiloss.DataError, match=r"cannot be fetched|is incomplete"):
        audit(f"{server.address}/{name}")


@pytest.mark.usefixtures("large")
def test_a_file_that_changes_meanwhile_is_told(server: Server) -> None:
    source = open_files(f"{server.address}/t.csv")
    folder = Path(server.RequestHandlerClass.keywords["directory"])  # type: ignore[attr-defined]
    csv.write_csv(TABLE.slice(0, 10), folder / "t.csv")
    with pytest.raises(epiloss.DataError, match="has changed since it was opened"):
        list(source.parts[0].batches(["y"]))


@pytest.mark.usefixtures("large")
def test_a_full_disk_is_told_and_nothing_is_left(
    server: Server, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = open_files(f"{server.address}/t.csv")
    monkeypatch.setattr(remote._file_system("http"), "get_file", full)
    with pytest.raises(epiloss.DataError, match=r"no space left for .*t\.csv of .* bytes.*set TMPDIR"):
        list(source.parts[0].batches(["y"]))
    assert not list(scratch.iterdir())


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_what_is_wrong_with_a_file_is_told_with_its_address(name: str, server: Server) -> None:
    path = Path(server.RequestHandlerClass.keywords["directory"], name)  # type: ignore[attr-defined]
    data = path.read_bytes()
    damaged = data[:-8] + b"\xff" * 8 if name == "t.parquet" else data.replace(b"\n1,", b"\n1,oops,", 9)
    path.write_bytes(damaged)
    with pytest.raises(epiloss.DataError, match=re.escape(f"{server.address}/{name}")) as told:
        audit(f"{server.address}/{name}")
    assert tempfile.gettempdir() not in str(told.value)


@pytest.mark.usefixtures("large")
def test_a_part_is_sent_to_other_processes(server: Server) -> None:
    (part,) = open_files(f"{server.address}/t.csv").parts
    sent = pickle.loads(pickle.dumps(part))
    assert sum(batch.num_rows for batch in sent.batches(["p"])) == N


def test_a_checkpoint_holds_no_secret_and_is_used_again(
    server: Server, tmp_path: Path, expected: dict[str, Any]
) -> None:
    kept = tmp_path / "kept"
    for token in ("first", "second"):
        address = f"{server.address}/t.csv?token={token}"
        assert audit(address, checkpoint=kept) == expected
    assert not any(b"token" in path.read_bytes() for path in kept.iterdir())


def test_a_database_must_be_on_this_machine(server: Server) -> None:
    path = Path(server.RequestHandlerClass.keywords["directory"], "a.db")  # type: ignore[attr-defined]
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE t (a)")
    with pytest.raises(epiloss.DataError, match="a database must be a local file"):
        audit(f"{server.address}/a.db", sql="SELECT * FROM t")
    with pytest.raises(
        epiloss.DataError, match=r"must be a local file, got the SQLite database .*Save it"
    ):
        audit(f"{server.address}/a.db")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_stopped_while_it_fetches_it_leaves_at_most_a_folder_of_its_own(
    ending: signal.Signals, server: Server, tmp_path: Path
) -> None:
    server.slow = True
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "epiloss", "audit", f"{server.address}/t.csv"]
    process = subprocess.Popen(
        [*command, "--label", "y", "--score", "p"],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_ctrl_c,
    )
    for _ in range(600):
        time.sleep(0.1)
        if server.asked:
            break
    time.sleep(1)
    process.send_signal(ending)
    _, said = process.communicate(timeout=30)
    if ending == signal.SIGINT:
        assert (process.returncode, said.strip()) == (130, "stopped.")
        assert not list((tmp_path / "tmp").iterdir())
    else:
        assert all(one.name.startswith("epiloss-") for one in (tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("scheme", ["s3", "gs", "http"])
def test_without_its_package_an_address_is_refused(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    remote._file_system.cache_clear()
    with pytest.raises(epiloss.MissingExtraError, match=r"pip install 'epiloss\[remote\]'"):
        audit(f"{scheme}://bucket/a.csv")


# s3, and the others by way of a file system of this process


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("s3fs", reason="the extra 'remote' is not installed")
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    import boto3

    folder = tmp_path_factory.mktemp("s3")
    write_all(folder)
    delta = folder / "delta" / "_delta_log"
    delta.mkdir(parents=True)
    (delta / "0.json").write_text("{}")
    (folder / "delta" / "part.parquet").write_bytes((folder / "t.parquet").read_bytes())
    serving = moto.ThreadedMotoServer("127.0.0.1", 0)
    serving.start()
    host, port = serving.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        remote._file_system.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        for path in folder.rglob("*"):
            if path.is_file():
                client.upload_file(str(path), "models", f"run/{path.relative_to(folder)}")
        yield "s3://models/run"
    serving.stop()
    remote._file_system.cache_clear()


@pytest.mark.parametrize("keep", [2**26, 0])
@pytest.mark.parametrize("name", FORMATS)
def test_files_of_s3_give_the_same_bits(
    name: str, keep: int, bucket: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SMALL", keep)
    assert audit(f"{bucket}/{name}") == expected


@pytest.mark.parametrize(
    "pattern", ["parts", "parts/", "parts/*/*.parquet", "parts/country=*/part.parquet"]
)
def test_folders_and_patterns_of_s3_are_read(
    pattern: str, bucket: str, expected: dict[str, Any]
) -> None:
    assert audit(f"{bucket}/{pattern}", exclude=["ballast", "country"]) == expected
    assert open_files(f"{bucket}/{pattern}").schema.field("country").type == pa.string()


def test_files_of_s3_are_read_by_several_processes_and_with_files_of_this_machine(
    bucket: str, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SMALL", 0)
    monkeypatch.setattr("epiloss.streaming.engines.local.LEAST_BYTES", 0)
    options = {"exclude": ["ballast", "country"]}
    forget = "import os\nfor key in ('AWS_ACCESS_KEY_ID', 'AWS_ENDPOINT_URL'): os.environ.pop(key, None)"
    Parallel(2, max_nbytes=None)(delayed(exec)(forget) for _ in range(20))  # as if set after the start
    assert audit(f"{bucket}/parts", n_jobs=2, **options) == expected
    here = tmp_path / "country=de" / "part.parquet"
    here.parent.mkdir()
    parquet.write_table(TABLE.slice(N // 2), here)
    assert audit([str(here), f"{bucket}/parts/country=fr/part.parquet"], **options) == expected


@pytest.mark.parametrize("name", ["none.csv", "none/*.csv", "t.parquet/more"])
def test_a_file_that_s3_does_not_have_is_told(name: str, bucket: str) -> None:
    with pytest.raises(epiloss.DataError, match="no file"):
        audit(f"{bucket}/{name}")


def test_a_bucket_that_there_is_not_is_told(bucket: str) -> None:
    with pytest.raises(epiloss.DataError, match=r"no file|cannot be fetched") as told:
        audit("s3://nobodys-bucket/a.csv")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["delta", "delta/part.parquet", "delta/*.parquet"])
def test_files_of_a_table_with_a_log_are_not_read_past_it(name: str, bucket: str) -> None:
    with pytest.raises(epiloss.DataError, match="is a remote Delta, Iceberg or Hudi table"):
        audit(f"{bucket}/{name}")


@pytest.mark.parametrize("scheme", ["gs", "hf"])
def test_other_addresses_go_to_the_file_system_of_their_kind(
    scheme: str, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="the extra 'remote' is not installed")
    from fsspec.implementations.memory import MemoryFileSystem

    class Elsewhere(MemoryFileSystem):  # type: ignore[misc]  # which is not there for all
        protocol = scheme
        store: dict[str, Any] = {}  # noqa: RUF012  # as the class has it
        pseudo_dirs = [""]  # noqa: RUF012

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return f"/{path.removeprefix(f'{scheme}://').strip('/')}"

    write_all(tmp_path / "data")
    there = Elsewhere()
    for name in FORMATS:
        there.pipe_file(f"/org/data/{name}", (tmp_path / "data" / name).read_bytes())
    monkeypatch.setattr(remote, "_file_system", {scheme: there}.__getitem__)
    assert fsspec is not None
    for name in FORMATS:
        assert audit(f"{scheme}://org/data/{name}") == expected
    assert audit(f"{scheme}://org/data/*.parquet") == expected
