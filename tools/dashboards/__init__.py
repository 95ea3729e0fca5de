"""Grafana's dashboards (``k8s/monitoring/dashboards``), written anew from the panels that the
file of each lists: ``python -m tools.dashboards``."""

import json
from pathlib import Path
from typing import Any

from tools.dashboards import platform, serving, tenant, training
from tools.dashboards.panel import SOURCE, placed

FOLDER = Path(__file__).resolve().parents[2] / "k8s" / "monitoring" / "dashboards"
DASHBOARDS = {
    "platform": platform.BOARD,
    "tenant": tenant.BOARD,
    "training": training.BOARD,
    "serving": serving.BOARD,
}
_TAG = "fine-tuning"


def dashboard(name: str) -> dict[str, Any]:
    """The dashboard in Grafana's form."""
    board = DASHBOARDS[name]
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    others = {"type": "dashboards", "title": "Fine-tuning", "tags": [_TAG], "asDropdown": True, "keepTime": True}
    return {
        "uid": f"ft-{name}",
        "title": board.title,
        "tags": [_TAG],
        "links": [{**others, "includeVars": True}],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, *(_variable(each, query) for each, query in board.variables.items())]},
        "panels": list(placed(board.panels)),
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
    }


def text_of(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"
