"""The fitted model of self-tuning estimators: an average of members, its metric and intervals."""
