"""Engines that run the passes: this process, several processes, or a dask, Spark or Ray cluster."""

from __future__ import annotations

from typing import Any

from epiloss.errors import OptionError
from epiloss.streaming.engines.base import Engine

__all__ = ["Engine", "resolve_engine"]


def resolve_engine(engine: Any, n_jobs: int | None) -> Engine:
    """Return the engine for a name, an address, a dask client or a Spark session."""
    from epiloss.streaming.engines.local import LocalEngine

    if isinstance(engine, Engine):
        return engine
    if engine is None or engine == "local":
        return LocalEngine(n_jobs)
    if engine == "memory":
        return LocalEngine(1)
    name, colon, address = engine.partition(":") if isinstance(engine, str) else ("", "", "")
    if colon and not address:
        raise OptionError(
            f"engine must have an address after the colon, got {engine!r}. Add it, or drop the colon."
        )
    package = type(engine).__module__.split(".")[0]
    if name == "dask" or package in ("dask", "distributed"):
        from epiloss.streaming.engines.dask import DaskEngine

        return DaskEngine(engine if not name else address or None, n_jobs)
    if name == "spark" or package == "pyspark":
        from epiloss.streaming.engines.spark import SparkEngine

        return SparkEngine(engine if not name else address or None)
    if name == "ray":
        from epiloss.streaming.engines.ray import RayEngine

        return RayEngine(address or None)
    raise OptionError(
        "engine must be 'memory', 'local', 'dask', 'spark', 'ray', an address such as 'dask:ADDRESS', a "
        f"dask Client or a SparkSession, got {engine!r}."
    )
