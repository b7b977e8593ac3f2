"""Drawing for the report and the explorer: charts, numbers, whole pages."""
