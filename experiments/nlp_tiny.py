"""A tiny BART with a tokenizer of its own, and made-up questions, in the files of the real ones."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from epiloss._saving import replacing
from minilm import load_torch
from nlp_yahoo import TOPICS
from protocol import MissingError

WORDS = [
    "how",
    "why",
    "what",
    "is",
    "the",
    "best",
    "way",
    "to",
    "find",
    "my",
    "new",
    "old",
    "good",
    "bad",
]
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
WIDTH = 16


def make_questions(folder: Path, n_per_topic: int, seed: int) -> Path:
    """Write ``test.csv`` with questions whose words reveal their topic."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    with replacing(folder / "test.csv") as temporary, temporary.open("w", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        for number, topic in enumerate(TOPICS, start=1):
            for _ in range(n_per_topic):
                said = " ".join(generator.choice(WORDS, int(generator.integers(3, 9))))
                writer.writerow([number, f"{said} {topic.split()[0].lower()}?", "", "an answer"])
    return folder / "test.csv"


def make_bart(folder: Path, questions: Path, seed: int) -> Path:
    """Write a narrow BART with random weights, and a tokenizer trained on the questions."""
    torch, transformers = load_torch()
    torch.manual_seed(seed)
    tokenizer = _tokenizer(transformers, questions)
    config = transformers.BartConfig(
        vocab_size=len(tokenizer),
        d_model=WIDTH,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=128,
        init_std=0.5,
        num_labels=3,
        id2label={0: "contradiction", 1: "neutral", 2: "entailment"},
        label2id={"contradiction": 0, "neutral": 1, "entailment": 2},
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
    )
    transformers.BartForSequenceClassification(config).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder


def _tokenizer(transformers: Any, questions: Path) -> Any:
    try:
        tokenizers = importlib.import_module("tokenizers")
        processors = importlib.import_module("tokenizers.processors")
    except ImportError:
        raise MissingError("a tokenizer is trained with tokenizers: pip install tokenizers") from None
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train([str(questions)], vocab_size=400, special_tokens=list(SPECIAL), show_progress=False)
    ends = ("</s>", trained.token_to_id("</s>")), ("<s>", trained.token_to_id("<s>"))
    inner = trained._tokenizer
    inner.post_processor = processors.RobertaProcessing(*ends)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        cls_token="<s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
