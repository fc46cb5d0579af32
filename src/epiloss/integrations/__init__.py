"""Integrations with scikit-learn, skore, MLflow, torch and torchmetrics."""
