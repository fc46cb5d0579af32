"""``extract``: writes the scores, features, labels and ids of a model and a loader to a file."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, OptionError
from epiloss.integrations.extraction.batches import Batch, read_batch
from epiloss.integrations.extraction.frameworks import default_device, resolve_model, torch_module
from epiloss.integrations.extraction.layers import Tap, find_layer, named_layer
from epiloss.integrations.extraction.parts import (
    ROWS,
    Parts,
    about,
    check_identity,
    checked_ending,
    remove_parts,
)
from epiloss.integrations.extraction.scores import ScoreMaker, resolve_scores
from epiloss.sources.arrow import arrow

FORMAT = 1
_DTYPES = ("float16", "float32")


def extract(
    model: Any,
    loader: Iterable[Any],
    path: str | Path,
    *,
    layer: str | None = None,
    scores: str | Callable[[Any], Any] = "softmax",
    ids: Sequence[Any] | None = None,
    dtype: str = "float16",
    transform: Callable[[Any], Any] | None = None,
    device: Any = None,
    pretrained: bool | str = False,
    resume: bool = True,
) -> Path:
    """Write a network's scores and penultimate features to a file, to be audited as often as you like.

    The file has the columns ``id``, ``y``, ``scores`` and ``features``; audit it with
    ``epiloss audit file.parquet --label y --score scores``. Batches are processed one by one, so memory
    does not grow with the number of rows. Finished batches are kept in the folder ``path.parts`` until
    the end: if the call is interrupted, the same call resumes and writes the same file. If the file of
    this model and loader already exists, nothing is done.

    Parameters
    ----------
    model : torch.nn.Module or str
        A classifier that returns logits, or a name: ``timm:resnet18``, ``torchvision:resnet50``,
        ``hf:folder``. A module is not changed.
    loader : iterable of batches
        ``(x, y)``, ``(x, y, id)``, or mappings with ``labels`` as in Hugging Face data sets, always in
        the same order.
    path : str or Path
        The file to write, ``.parquet`` or ``.arrow``.
    layer : str, optional
        The layer whose input is the features. By default, the last linear layer or 1 x 1 convolution
        that returns the logits.
    scores : {"softmax", "sigmoid"} or callable
        How to convert logits (n, K) to probabilities (n, K), or (n,) of the positive class.
    ids : sequence, optional
        An id for each row, in order. By default, the ids of the loader, or row numbers.
    dtype : {"float16", "float32"}
        The type of the features.
    transform : callable, optional
        A function to apply to the inputs of each batch.
    device : str or torch.device, optional
        Where to compute. By default, the device of the model, or the fastest one for a name.
    pretrained : bool or str
        For a name: whether to download trained weights, or the name of the weights.
    resume : bool
        False starts again and overwrites the file.

    Returns
    -------
    Path
        The file.

    See Also
    --------
    audit_table : audits the file.

    Examples
    --------
    This example needs torch::

        import epiloss, torch

        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        data = torch.utils.data.TensorDataset(torch.randn(900, 4), torch.arange(900) % 3)
        loader = torch.utils.data.DataLoader(data, batch_size=64)
        epiloss.extract(net, loader, "net.parquet")
        # then: epiloss audit net.parquet --label y --score scores
    """
    torch_module()
    arrow()
    target = checked_ending(path)
    if dtype not in _DTYPES:
        raise OptionError(f"dtype must be {' or '.join(map(repr, _DTYPES))}, got {dtype!r}.")
    make_scores = resolve_scores(scores)
    network = resolve_model(model, pretrained)
    if device is None and isinstance(model, str):
        device = default_device()
    source = (read_batch(raw, transform) for raw in loader)
    first = next(source, None)
    if first is None:
        raise DataError("the loader must have at least one batch, got none. Check its data set.")
    with _evaluating(network, device) as place:
        tap = _tap(network, layer, first, place)
        identity = {
            "format": FORMAT,
            "model": _model_digest(network),
            "layer": tap.name,
            "scores": make_scores.identity,
            "dtype": dtype,
            "ids": None if ids is None else hashlib.sha256(repr(list(ids)).encode()).hexdigest()[:32],
        }
        total = len(loader) if isinstance(loader, Sized) else None
        if resume and _is_finished(target, identity, first, total):
            remove_parts(target)  # of a run that was killed after its last act but one
            return target
        parts = Parts.open(target, identity, resume=resume)
        batches = itertools.chain([first], source)
        _fill(parts, _shown(batches, total), network, place, tap, make_scores, ids, dtype)
    parts.join(target)
    return target


def _fill(
    parts: Parts,
    batches: Iterable[Batch],
    network: Any,
    place: Any,
    tap: Tap,
    make_scores: ScoreMaker,
    ids: Sequence[Any] | None,
    dtype: str,
) -> None:
    """Extract the batches that are not finished, and write them in parts."""
    torch, pa = torch_module(), arrow()
    tables: list[Any] = []
    digests: list[str] = []
    start = number = 0
    with tap.open():
        for number, batch in enumerate(batches, 1):
            digest = batch.digest()
            if number <= parts.n_found:
                parts.check(number - 1, digest)
            else:
                with torch.inference_mode():
                    logits = batch.run(network, place)
                    features = tap.features(logits)
                tap.forget()
                names = _ids(batch, ids, start)
                values = make_scores(logits, batch.labels, names)
                tables.append(_table(names, batch.labels, values, _stored(features, dtype, names)))
                digests.append(digest)
                if sum(table.num_rows for table in tables) >= ROWS:
                    parts.write(_joined(pa, tables), digests)
                    tables, digests = [], []
            start += len(batch)
    if number < parts.n_found:
        raise DataError(
            f"the loader must have the {parts.n_found} batches extracted by the earlier run, got "
            f"{number}. Pass the same loader, or start again with resume=False."
        )
    if ids is not None and len(ids) != start:
        raise DataError(
            f"ids must have one entry for each of the {start} rows, got {len(ids)}. Pass one for each."
        )
    if tables:
        parts.write(_joined(pa, tables), digests)


def _tap(network: Any, layer: str | None, first: Batch, place: Any) -> Tap:
    if layer is not None:
        return named_layer(network, layer)
    torch = torch_module()
    with torch.inference_mode():
        logits = first.run(network, place)
        return find_layer(network, lambda: first.run(network, place), logits)


@contextmanager
def _evaluating(network: Any, device: Any) -> Iterator[Any]:
    """Set a network to evaluation mode on a device, yield the device, and restore the network."""
    torch = torch_module()
    modes = [(module, module.training) for module in network.modules()]
    some = next(itertools.chain(network.parameters(), network.buffers()), None)
    home = torch.device("cpu") if some is None else some.device
    try:
        network.eval()
        if device is not None:
            network.to(device)
        yield home if device is None else device
    finally:
        if device is not None:
            network.to(home)
        for module, training in modes:
            module.training = training


def _model_digest(network: Any) -> str:
    """Return a digest of the class and all weights of a network."""
    torch = torch_module()
    total = hashlib.sha256(f"{type(network).__module__}.{type(network).__qualname__}".encode())
    for name, value in network.state_dict().items():
        total.update(name.encode())
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().reshape(-1).contiguous()
            total.update(memoryview(flat.view(torch.uint8).numpy()))
    return total.hexdigest()[:32]


def _is_finished(target: Path, identity: dict[str, Any], first: Batch, total: int | None) -> bool:
    """Tell whether the file is finished; raise an error if it is something else."""
    if not target.exists():
        return False
    there = about(target)
    if there is None:
        raise DataError(
            f"{str(target)!r} exists but is not an extraction. Choose another path, or overwrite it "
            "with resume=False."
        )
    check_identity(there, identity, target)
    if there["first"] != first.digest() or there["batches"] != (total or there["batches"]):
        raise DataError(
            f"{str(target)!r} belongs to another loader, whose batches differ. Choose another path, or "
            "overwrite it with resume=False."
        )
    return True


def _ids(batch: Batch, ids: Sequence[Any] | None, start: int) -> list[Any]:
    """Return the ids of the rows: the given ones, those of the loader, or row numbers."""
    if ids is not None:
        here = ids[start : start + len(batch)]
        if len(here) < len(batch):
            raise DataError(
                f"ids must have one entry for each row, got {len(ids)} for more rows. Pass one for each "
                "row."
            )
        return [one.item() if hasattr(one, "item") else one for one in here]
    return list(range(start, start + len(batch))) if batch.ids is None else batch.ids


def _stored(features: Any, dtype: str, names: Sequence[Any]) -> NDArray[Any]:
    """Convert features to the stored type, and raise an error if values are lost."""
    values = features.float().cpu().numpy()
    with np.errstate(over="ignore"):
        kept = values.astype(dtype)
    wrong = np.argwhere(~np.isfinite(kept))
    if len(wrong):
        row, column = wrong[0]
        value = values[row, column]
        remedy = "Use dtype='float32'." if np.isfinite(value) else "Check the model and its inputs."
        limit = f"finite and at most {np.finfo(dtype).max:g} in size"
        raise DataError(
            f"features must be {limit}, got {value:g} in column {column} of row {names[row]!r}. {remedy}"
        )
    if np.count_nonzero(values) > 2 * np.count_nonzero(kept):
        raise DataError(
            f"features must not round to 0 as {dtype}, got a largest value of "
            f"{np.abs(values).max():g} in a batch. Use dtype='float32'."
        )
    return np.asarray(kept)


def _table(names: list[Any], labels: Any, scores: NDArray[Any], features: NDArray[Any]) -> Any:
    pa = arrow()
    are_numbers = all(isinstance(name, int) and not isinstance(name, bool) for name in names)
    ids = pa.array(names, pa.int64()) if are_numbers else pa.array([str(name) for name in names])
    columns = {
        "id": ids,
        "y": pa.array(labels),
        "scores": _column(scores),
        "features": _column(features),
    }
    # columns marked as identifiers are not used as features
    fields = [
        pa.field(name, column.type, metadata={"epiloss": "identifier"} if name == "id" else None)
        for name, column in columns.items()
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _column(values: NDArray[Any]) -> Any:
    pa = arrow()
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(values)), values.shape[1])


def _joined(pa: Any, tables: Sequence[Any]) -> Any:
    try:
        return pa.concat_tables(tables).combine_chunks()
    except pa.ArrowInvalid as error:
        raise DataError(
            "all batches must have features of the same width and ids of the same type. "
            "Pad inputs to one length, name a layer=, or pass ids=."
        ) from error


def _shown(batches: Iterable[Batch], total: int | None) -> Iterable[Batch]:
    """Show progress on standard error if it is a terminal."""
    if not sys.stderr.isatty():
        return batches
    from rich.console import Console
    from rich.progress import track

    return track(batches, "extracting", total, console=Console(stderr=True))
