"""Shipped models. Each module builds, feeds and trains one family of models."""
