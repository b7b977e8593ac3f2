"""The search of the self-tuning estimators."""
