"""Grafana's dashboards (``k8s/monitoring/dashboards``), written anew from the panels that this file lists:
``python -m tools.dashboards``. Each panel is a title, a unit of Grafana's, and PromQL by legend."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "k8s" / "monitoring" / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8

Panel = tuple[str, str, Mapping[str, str]]

_RUN = '{tenant="$tenant", dataset="$dataset", recipe="$recipe"}'
_ASKED = 'route=~"/v1/(chat/)?completions"'

DASHBOARDS: Mapping[str, tuple[str, Mapping[str, str], Sequence[Panel]]] = {
    "platform": (
        "Fine-tuning: platform",
        {},
        (
            (
                "Open submissions",
                "short",
                {"{{state}}": "sum by (state) (max by (tenant, state) (ft_submissions_open))"},
            ),
            (
                "Longest wait for a start",
                "s",
                {"{{tenant}}": "topk(10, max by (tenant) (ft_submissions_oldest_queued_seconds))"},
            ),
            ("Requests", "reqps", {"{{status}}": "sum by (status) (rate(ft_http_requests_total[5m]))"}),
            (
                "Time until an answer begins (p99)",
                "s",
                {
                    "{{route}}": "topk(10, histogram_quantile(0.99, sum by (route, le) "
                    "(rate(ft_http_request_seconds_bucket[5m]))))"
                },
            ),
            (
                "GPU-hours this month",
                "h",
                {"{{tenant}}": 'topk(20, max by (tenant) (ft_month_gpu_seconds{kind="billed"})) / 3600'},
            ),
            (
                "Cost this month",
                "short",
                {"{{tenant}} {{currency}}": "topk(20, max by (tenant, currency) (ft_month_cost))"},
            ),
            ("Trainings with an alert", "short", {"{{tenant}}": "max by (tenant) (ft_trainings_alerted)"}),
            (
                "Age of these figures, and unreadable records",
                "short",
                {
                    "seconds": "time() - max(ft_platform_looked_at_seconds)",
                    "records": "max(ft_platform_unreadable_records)",
                },
            ),
        ),
    ),
    "tenant": (
        "Fine-tuning: tenant",
        {"tenant": "label_values(ft_submissions_open, tenant)"},
        (
            ("Open submissions", "short", {"{{state}}": 'max by (state) (ft_submissions_open{tenant="$tenant"})'}),
            ("Longest wait for a start", "s", {"wait": 'max(ft_submissions_oldest_queued_seconds{tenant="$tenant"})'}),
            ("Ended this month", "short", {"{{outcome}}": 'max by (outcome) (ft_month_jobs{tenant="$tenant"})'}),
            (
                "GPU-hours this month",
                "h",
                {"{{kind}}": 'max by (kind) (ft_month_gpu_seconds{tenant="$tenant"}) / 3600'},
            ),
            ("Cost this month", "short", {"{{currency}}": 'max by (currency) (ft_month_cost{tenant="$tenant"})'}),
            (
                "Trainings: tokens per second",
                "short",
                {"{{dataset}} {{recipe}}": 'max by (dataset, recipe) (ft_training_tokens_per_s{tenant="$tenant"})'},
            ),
        ),
    ),
    "training": (
        "Fine-tuning: training",
        {
            "tenant": "label_values(ft_training_step, tenant)",
            "dataset": 'label_values(ft_training_step{tenant="$tenant"}, dataset)',
            "recipe": 'label_values(ft_training_step{tenant="$tenant", dataset="$dataset"}, recipe)',
        },
        (
            ("Loss", "short", {"attempt {{attempt}}": f"ft_training_loss{_RUN}"}),
            ("Step", "short", {"attempt {{attempt}}": f"ft_training_step{_RUN}"}),
            ("Tokens per second", "short", {"attempt {{attempt}}": f"ft_training_tokens_per_s{_RUN}"}),
            ("Model FLOP utilisation", "percentunit", {"attempt {{attempt}}": f"ft_training_mfu{_RUN}"}),
            ("Gradient norm", "short", {"attempt {{attempt}}": f"ft_training_grad_norm{_RUN}"}),
            ("Waiting for data, in each step", "s", {"attempt {{attempt}}": f"ft_training_data_wait_s{_RUN}"}),
            (
                "GPU memory",
                "decgbytes",
                {
                    "tensors": f"ft_training_gpu_memory_gib{_RUN} * 1.073741824",
                    "allocator": f"ft_training_gpu_reserved_gib{_RUN} * 1.073741824",
                },
            ),
            ("Alerts", "short", {"attempt {{attempt}}": f"ft_training_alerts{_RUN}"}),
        ),
    ),
    "serving": (
        "Fine-tuning: serving",
        {},
        (
            (
                "Requests for answers",
                "reqps",
                {"{{status}}": f"sum by (status) (rate(ft_http_requests_total{{{_ASKED}}}[5m]))"},
            ),
            (
                "Time until an answer begins",
                "s",
                {
                    f"p{quantile * 100:.0f}": f"histogram_quantile({quantile}, sum by (le) "
                    f"(rate(ft_http_request_seconds_bucket{{{_ASKED}}}[5m])))"
                    for quantile in (0.5, 0.99)
                },
            ),
            ("Running requests", "short", {"{{pod}}": "vllm:num_requests_running"}),
            ("Waiting requests", "short", {"{{pod}}": "vllm:num_requests_waiting"}),
            ("Tokens of prompts", "short", {"{{pod}}": "rate(vllm:prompt_tokens_total[5m])"}),
            ("Tokens of answers", "short", {"{{pod}}": "rate(vllm:generation_tokens_total[5m])"}),
        ),
    ),
}


def dashboard(name: str) -> dict[str, Any]:
    """The dashboard in Grafana's form."""
    title, variables, panels = DASHBOARDS[name]
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"ft-{name}",
        "title": title,
        "tags": ["fine-tuning"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, *(_variable(each, query) for each, query in variables.items())]},
        "panels": [_panel(number, *panel) for number, panel in enumerate(panels)],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {"name": name, "type": "query", "datasource": _SOURCE, "query": query, "refresh": 2, "sort": 1}


def _panel(number: int, title: str, unit: str, queries: Mapping[str, str]) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + each), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for each, (legend, query) in enumerate(queries.items())
        ],
    }


def text_of(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each}.json").write_text(text_of(each), encoding="utf-8")
