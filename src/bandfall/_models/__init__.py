"""The fitted model of the self-tuning estimators: an average of members, and what it tells."""
