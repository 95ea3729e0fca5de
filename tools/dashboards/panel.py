"""Dashboards and their panels, and Grafana's form of a panel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${source}"}
_HEIGHTS = {"stat": 4, "bargauge": 8, "timeseries": 8}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Args:
        unit: Grafana's id of the unit.
        queries: PromQL by legend.
        description: what Grafana shows beside the title.
        kind: a graph over time, or of the present alone a number (``stat``) or a bar for each series.
        width: of 24 columns. A graph of full width has its legend as a table, largest first.
        limit: red from here on, on a graph above a line: where the alert of ``rules.yaml`` is.
        stacked: whether a graph's series are parts of a sum.
        zero: whether a graph's axis begins at zero.
        kept: a number: that of the newest sample in the range shown, also of a series that has ended.
    """

    title: str
    unit: str
    queries: Mapping[str, str]
    description: str
    kind: Literal["timeseries", "stat", "bargauge"] = "timeseries"
    width: int = 12
    decimals: int | None = None
    limit: float | None = None
    stacked: bool = False
    zero: bool = True
    kept: bool = False


@dataclass(frozen=True, kw_only=True)
class Board:
    """A dashboard.

    Args:
        variables: what a reader chooses, by name: the query for its values.
    """

    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    panels: Sequence[Panel]


def placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Grafana's form of ``panels``, laid out in rows from left to right."""
    x = y = height = 0
    for number, panel in enumerate(panels):
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        height = max(height, _HEIGHTS[panel.kind])
        yield {
            "id": number + 1,
            "title": panel.title,
            "description": panel.description,
            "type": panel.kind,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": _HEIGHTS[panel.kind]},
            "fieldConfig": _fields(panel),
            "options": _options(panel),
            "targets": [
                {
                    "refId": chr(ord("A") + each),
                    "datasource": SOURCE,
                    "expr": query,
                    "legendFormat": legend,
                    "instant": panel.kind != "timeseries" and not panel.kept,
                }
                for each, (legend, query) in enumerate(panel.queries.items())
            ],
        }
        x += panel.width


def _fields(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "text" if panel.limit is None else "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.zero:
        defaults["min"] = 0
    if panel.kind == "bargauge":
        defaults["color"] = {"mode": "fixed", "fixedColor": "blue"}
    if panel.kind != "timeseries":
        return {"defaults": defaults, "overrides": []}
    defaults["custom"] = {
        "fillOpacity": 40 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if panel.limit is None else "dashed"},
    }
    red = {"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}}
    failed = {"matcher": {"id": "byRegexp", "options": "/^5..$/"}, "properties": [red]}
    return {"defaults": defaults, "overrides": [failed] if "{{status}}" in panel.queries else []}


def _options(panel: Panel) -> dict[str, Any]:
    newest = {"reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "stat":
        # One number needs a name only where its legend says what the title does not, such as a currency.
        named = any("{{" in each for each in panel.queries)
        return {**newest, "textMode": "value_and_name" if named else "value", "graphMode": "none"}
    if panel.kind == "bargauge":
        return {
            **newest,
            "orientation": "horizontal",
            "displayMode": "basic",
            "sizing": "manual",
            "maxVizHeight": 40,
            "text": {"valueSize": 18},
        }
    legend: dict[str, Any] = {"displayMode": "list", "placement": "bottom", "calcs": [], "showLegend": True}
    if panel.width == COLUMNS:
        legend |= {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"]}
        legend |= {"sortBy": "Max", "sortDesc": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
