"""What the report and the explorer draw with: one style sheet for every page."""

from bandfall.drawing.resources import POLICY, read_resource, style_sheet

__all__ = ["POLICY", "read_resource", "style_sheet"]
