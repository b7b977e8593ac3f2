"""Drawing for the report and the explorer: charts as SVG, numbers, the style sheet."""

from bandfall._drawing.axes import Axis, number
from bandfall._drawing.chart import Bar, Chart, ranking, sparkline
from bandfall._drawing.resources import POLICY, filled_page, read_resource, style_sheet

__all__ = [
    "POLICY",
    "Axis",
    "Bar",
    "Chart",
    "filled_page",
    "number",
    "ranking",
    "read_resource",
    "sparkline",
    "style_sheet",
]
