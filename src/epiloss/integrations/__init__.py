"""Packages that meet epiloss in users' code: scikit-learn, MLflow, torch, torchmetrics."""
