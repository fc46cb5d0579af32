"""Logs of language models that are hostile: bombs, deep nesting, huge lines, names that steer, kills."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import epiloss
from forked_scripts import ForkedScripts
from language_model_logs import (
    harness_line,
    harness_lines,
    inspect_sample,
    inspect_samples,
    write_eval_log,
    write_json_log,
    write_lines,
)

ROOM = 2**29
HUGE = 2**28 + 2**20
STEERS = "\x1b[31m\x1b]0;title\x07\u202e\x9b2J\r\n[red]bold[/red]"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`&{{7*7}}"
LIMITED = """
import resource, sys
from pathlib import Path
import epiloss
epiloss.audit_table
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
try:
    epiloss.audit_table(sys.argv[1], method="partition")
    print("done")
except (epiloss.DataError, epiloss.OptionError) as error:
    assert not isinstance(error.__cause__, MemoryError), error
    assert str(error).isprintable()
    print(error)
"""


def deflated(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a_epoch_1.json", content)
    return path


def relabelled(path: Path) -> Path:
    """Write an archive whose sample claims two gigabytes."""
    content = json.dumps(inspect_sample("a", 1, "C", 0.5)).encode()
    deflated(path, content)
    size = len(content).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (2**31).to_bytes(4, "little")))
    return path


def many(path: Path) -> Path:
    """Write an archive of many samples that swell together."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(40):
            one = inspect_sample(f"s{k}", 1, "C" if k % 2 else "I", 0.5 + k / 100)
            one["events"] = "0" * 2**23
            archive.writestr(f"samples/s{k}_epoch_1.json", json.dumps(one))
    return path


def swollen_lines(path: Path) -> Path:
    line = json.dumps({**harness_lines(1)[0], "more": "0" * 2**22}).encode() + b"\n"
    path.write_bytes(gzip.compress(line, 9) * (HUGE // len(line) + 2))
    return path


def deep(n: int) -> str:
    return "[" * n + "]" * n


def deep_line(path: Path) -> Path:
    lines = [json.dumps(line) for line in harness_lines(3)]
    lines[1] = lines[1].replace('"topic": ', f'"deep": {deep(200_000)}, "topic": ', 1)
    path.write_text("\n".join(lines))
    return path


def deep_log(path: Path) -> Path:
    write_json_log(path, inspect_samples(5, 1))
    path.write_text(path.read_text().replace('"store": {}', f'"store": {deep(200_000)}', 1))
    return path


def long_line(path: Path) -> Path:
    with path.open("w") as file:
        file.write(json.dumps(harness_lines(1)[0]) + "\n")
        file.write('{"doc": "')
        for _ in range(150):
            file.write("x" * 2**20)
        file.write('"}\n')
    return path


HOSTILE: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "a sample that swells": (
        lambda path: deflated(path, b" " * HUGE),
        ".eval",
        "at most 134,217,728 bytes",
    ),
    "a sample that claims to be large": (relabelled, ".eval", "at most 134,217,728 bytes"),
    "samples that swell together": (many, ".eval", "done"),
    "lines that swell": (swollen_lines, ".jsonl.gz", "must not expand to more than"),
    "a deep line": (deep_line, ".jsonl", "nested"),
    "a deep log": (deep_log, ".json", "nested too deeply"),
    "a long line": (long_line, ".jsonl", "a line of over 134,217,728 bytes"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_claims_too_much_is_refused_in_little_memory(
    what: str, tmp_path: Path, forked: ForkedScripts
) -> None:
    write, ending, words = HOSTILE[what]
    path = write(tmp_path / f"samples_a{ending}")
    done = forked.run(LIMITED.format(room=ROOM), path)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def hostile_lines(text: str) -> list[dict[str, Any]]:
    lines = harness_lines(300)
    for k, line in enumerate(lines):
        line["doc"][text] = text if k % 2 else "plain"
        line["doc"]["question"] = f"{text} {'not' if k % 3 else ''} this one {k}"
        line["filter"] = text
    return lines


def hostile_samples(text: str) -> list[dict[str, Any]]:
    samples = inspect_samples(200, 1)
    for k, one in enumerate(samples):
        one["metadata"][text] = text if k % 2 else "plain"
        one["input"] = f"{text} {'not' if k % 3 else ''} this one {k}"
        one["scores"] = {text: one["scores"]["match"]}
    return samples


def written(form: str, text: str, folder: Path) -> Path:
    if form == "harness":
        return write_lines(folder / "samples_a.jsonl", hostile_lines(text))
    return write_eval_log(folder / "a.eval", hostile_samples(text))


@pytest.mark.parametrize("form", ["harness", "inspect"])
def test_no_name_in_a_log_steers_a_terminal(form: str, tmp_path: Path, forked: ForkedScripts) -> None:
    path = written(form, STEERS, tmp_path)
    for options in ((), ("--json",), ("--filter", "x"), ("--scorer", "x"), ("--label", "x")):
        done = forked.command("audit", path, *options)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 2, 4), said
        assert all(sign.isprintable() or sign == "\n" for sign in said), repr(said)


@pytest.mark.parametrize("form", ["harness", "inspect"])
def test_no_text_in_a_log_is_markup_in_a_report(form: str, tmp_path: Path) -> None:
    page = epiloss.audit_table(written(form, MARKUP, tmp_path), method="partition").to_html()
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_names_in_archives_lead_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for k, one in enumerate(inspect_samples(60, 1)):
            archive.writestr(f"samples/../../../escaped{k}.json", json.dumps(one))
    before = set(tmp_path.parent.rglob("*"))
    assert epiloss.read_log(path).table.num_rows == 60
    assert set(tmp_path.parent.rglob("*")) == before


def test_fields_without_end_are_cut_to_those_of_most_rows(tmp_path: Path) -> None:
    lines = harness_lines(200)
    for k, line in enumerate(lines):
        line["doc"] |= {f"field {k} {j}": j for j in range(50)}
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    assert log.table.num_columns < 520
    assert "doc.topic" in log.table.column_names


def test_values_of_any_kind_in_documents_are_read_or_left_out(tmp_path: Path) -> None:
    kinds: list[Any] = [None, True, 3, 10**400, 1e308, "x", "\ud800", [], [1, "a"], {"a": [[]]}, [[1]]]
    lines = [
        harness_line(k, [-1.0, -2.0 + k % 2 * 1.5], k % 2, doc={"odd": kinds[k % len(kinds)], "k": k})
        for k in range(400)
    ]
    path = tmp_path / "samples_a.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert str(epiloss.audit_table(path, method="partition"))


def test_killed_while_it_reads_a_log_it_leaves_the_old_page(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_a.jsonl", harness_lines(4_000))
    page = tmp_path / "page.html"
    page.write_text("old")
    command = [sys.executable, "-m", "epiloss", "audit", str(path), "--report", str(page), "--force"]
    for wait in (0.3, 1.0, 2.0):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        text = page.read_text("utf-8")
        assert text == "old" or text.rstrip().endswith("</html>")
    seen = {one.name for one in tmp_path.iterdir() if not one.name.startswith(".")}
    assert seen == {"samples_a.jsonl", "page.html"}
