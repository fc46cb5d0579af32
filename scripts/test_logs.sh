#!/usr/bin/env bash
# Install lm-evaluation-harness and Inspect into .venv-logs, where their pins disturb nothing else, and run the
# tests that audit the logs they write.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=.venv-logs
[ -x $VENV/bin/python ] || "$PYTHON" -m venv $VENV
$VENV/bin/python -m pip --disable-pip-version-check install --quiet --constraint .ci/constraints.txt \
  --editable '.[files,plot,torch]' lm-eval==0.4.13 'inspect-ai>=0.3,<0.4' transformers accelerate \
  pandas polars pytest hypothesis
# the results of uqlm, without the packages that it calls language models with
$VENV/bin/python -m pip --disable-pip-version-check install --quiet --no-deps 'uqlm>=0.6,<0.7'
$VENV/bin/python -c "import lm_eval, inspect_ai"  # or all tests would be skipped
$VENV/bin/python -m pytest -q tests/integrations/test_language_model_logs.py tests/docs/test_language_models.py
