"""Synthetic logs in the formats of lm-evaluation-harness and Inspect, for tests and the fuzzer."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def harness_line(
    place: int,
    likelihoods: Sequence[float],
    target: Any,
    *,
    choices: Sequence[str] | None = None,
    doc: Mapping[str, Any] | None = None,
    filter_name: str = "none",
    **metrics: float,
) -> dict[str, Any]:
    """Return a line of ``samples_*.jsonl``, with the keys of version 0.4.13."""
    texts = choices or [f"text {k}" for k in range(len(likelihoods))]
    pairs = [[str(one), "False"] for one in likelihoods]
    asked = {f"gen_args_{k}": {"arg_0": "Question", "arg_1": f" {text}"} for k, text in enumerate(texts)}
    return {
        "doc_id": place,
        "doc": dict(doc or {"question": f"Which one, {place}?"}),
        "target": str(target),
        "arguments": asked,
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": filter_name,
        "metrics": list(metrics),
        "doc_hash": "0",
        "prompt_hash": "0",
        "target_hash": "0",
        **metrics,
    }


def harness_lines(n: int, *, seed: int = 0, least: int = 3, most: int = 4) -> list[dict[str, Any]]:
    """Return questions; on those with the word 'not' the model is overconfident."""
    g = np.random.default_rng(seed)
    lines = []
    for place in range(n):
        width = int(g.integers(least, most + 1))
        values = np.log(g.dirichlet(np.full(width, 0.5)) + 1e-9)
        negated = bool(g.random() < 0.4)
        p = np.exp(values) / np.exp(values).sum()
        gold = int(g.choice(width, p=np.full(width, 1 / width) if negated else p))
        doc = {
            "question": f"Which of these is {'not ' if negated else ''}a planet, number {place}?",
            "choices": [f"word{k}" for k in range(width)],
            "answer": gold,
            "topic": str(g.choice(["stars", "stones"])),
            "meta": {"year": int(g.integers(1990, 2020))},
        }
        right = float(int(values.argmax()) == gold)
        choices = [f"word{k}" for k in range(width)]
        lines.append(harness_line(place, values.tolist(), gold, choices=choices, doc=doc, acc=right))
    return lines


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write objects as JSON lines."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path


def inspect_sample(
    name: str, epoch: int, correct: Any, confidence: float | None, **more: Any
) -> dict[str, Any]:
    """Return a sample of an Inspect log, with the fields that epiloss reads."""
    metadata = {} if confidence is None else {"confidence": confidence}
    return {
        "id": name,
        "epoch": epoch,
        "input": f"What is {name}?",
        "choices": ["one", "two"],
        "target": "A",
        "output": {"model": "mock", "choices": [], "completion": "ANSWER: A"},
        "scores": {"match": {"value": correct, "answer": "A", "metadata": metadata}},
        "metadata": {"topic": name[-1]},
        "store": {},
        **more,
    }


def inspect_samples(n: int, epochs: int, *, seed: int = 0, vary: bool = False) -> list[dict[str, Any]]:
    """Return samples that are correct as often as the confidence says, or less often by 0.3."""
    g = np.random.default_rng(seed)
    found = []
    for place in range(n):
        confidence = round(float(g.uniform(0.35, 0.95)), 4)
        rate = confidence - 0.3 if place % 2 else confidence
        for epoch in range(1, epochs + 1):
            said = confidence if not vary else round(float(g.uniform(0.35, 0.95)), 4)
            value = "C" if g.random() < rate else "I"
            found.append(inspect_sample(f"s{place}", epoch, value, said))
    return found


def write_json_log(path: Path, samples: Sequence[Any]) -> Path:
    """Write an Inspect log as JSON."""
    log = {"version": 2, "status": "success", "eval": {"task": "mock"}, "samples": samples}
    path.write_text(json.dumps(log, indent=2), "utf-8")
    return path


def write_eval_log(path: Path, samples: Sequence[Any], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write an Inspect log as an archive."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("_journal/start.json", "{}")
        for one in samples:
            name = f"samples/{one['id']}_epoch_{one['epoch']}.json"
            archive.writestr(name, json.dumps(one))
        archive.writestr("header.json", json.dumps({"version": 2, "status": "success"}))
    return path
