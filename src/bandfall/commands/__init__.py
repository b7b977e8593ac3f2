"""The commands of ``bandfall`` beside ``paper``: fit, predict, inspect, report, compare, demo."""
