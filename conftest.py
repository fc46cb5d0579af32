"""Modules whose packages are not installed have no examples to run."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torchmetrics") else ["src/epiloss/integrations/torchmetrics.py"]
