"""Drawing for the report and the explorer: charts as SVG, numbers, the style sheet."""

from bandfall.drawing.axes import Axis
from bandfall.drawing.bars import ranking, sparkline
from bandfall.drawing.chart import Chart
from bandfall.drawing.numbers import number
from bandfall.drawing.resources import POLICY, filled_page, read_resource, style_sheet

__all__ = [
    "POLICY",
    "Axis",
    "Chart",
    "filled_page",
    "number",
    "ranking",
    "read_resource",
    "sparkline",
    "style_sheet",
]
