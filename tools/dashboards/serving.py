"""The serving dashboard: requests to the router, and the model servers behind it."""

from tools.dashboards.panel import Board, Panel

_ASKED = 'route=~"/v1/(chat/)?completions"'


def _quantile(quantile: float) -> str:
    seconds = f"sum by (le) (rate(ft_http_request_seconds_bucket{{{_ASKED}}}[5m]))"
    return f"histogram_quantile({quantile}, {seconds})"


BOARD = Board(
    title="Fine-tuning: serving",
    panels=(
        Panel(
            title="Requests",
            unit="reqps",
            queries={"requests": f"sum(rate(ft_http_requests_total{{{_ASKED}}}[5m]))"},
            description="Requests for answers through the router.",
            kind="stat",
            width=4,
        ),
        Panel(
            title="Refused or failed",
            unit="percentunit",
            queries={
                "share": f'(sum(rate(ft_http_requests_total{{{_ASKED}, status=~"[45].."}}[5m])) or vector(0)) '
                f"/ sum(rate(ft_http_requests_total{{{_ASKED}}}[5m]))"
            },
            description="Share of requests without an answer from a model.",
            kind="stat",
            width=4,
        ),
        *(
            Panel(
                title=f"Answer begins (p{quantile * 100:.0f})",
                unit="s",
                queries={"seconds": _quantile(quantile)},
                description="As seen by the client, including the router.",
                kind="stat",
                width=4,
            )
            for quantile in (0.5, 0.99)
        ),
        Panel(
            title="Running requests",
            unit="short",
            queries={"running": "sum(vllm:num_requests_running)"},
            description="Requests in progress on all servers.",
            kind="stat",
            width=4,
        ),
        Panel(
            title="Waiting requests",
            unit="short",
            queries={"waiting": "max(sum by (pod) (vllm:num_requests_waiting))"},
            description="Requests in the longest queue of a server.",
            kind="stat",
            width=4,
            limit=16,
        ),
        Panel(
            title="Requests by status",
            unit="reqps",
            queries={"{{status}}": f"sum by (status) (rate(ft_http_requests_total{{{_ASKED}}}[5m]))"},
            description="429: rate limit. 503: no server has the model, or none responds.",
            stacked=True,
        ),
        Panel(
            title="Time to first byte",
            unit="s",
            queries={f"p{quantile * 100:.0f}": _quantile(quantile) for quantile in (0.5, 0.9, 0.99)},
            description="As seen by the client, including the router.",
        ),
        Panel(
            title="Running requests by server",
            unit="short",
            queries={"{{pod}}": "sum by (pod) (vllm:num_requests_running)"},
            description="Concurrent requests per server.",
        ),
        Panel(
            title="Waiting requests by server",
            unit="short",
            queries={"{{pod}}": "sum by (pod) (vllm:num_requests_waiting)"},
            description="Requests in a server's queue. If it stays long, add a server with the same base.",
            limit=16,
        ),
        Panel(
            title="Requests copied to candidates",
            unit="reqps",
            queries={"{{result}}": "sum by (result) (rate(ft_shadow_copies_total[5m]))"},
            description="Shadow stages of rollouts. failed: no response from the candidate. busy, dropped: no room.",
            stacked=True,
        ),
        Panel(
            title="Copies judged today",
            unit="short",
            queries={"{{result}}": "sort_desc(sum by (result) (max by (tenant, result) (ft_day_verdicts)))"},
            description="Verdicts of judges on candidates against production, since midnight UTC. none: no verdict.",
            kind="bargauge",
        ),
        Panel(
            title="Prompt tokens per second",
            unit="short",
            queries={"{{pod}}": "sum by (pod) (rate(vllm:prompt_tokens_total[5m]))"},
            description="Prompt tokens processed per server.",
            stacked=True,
        ),
        Panel(
            title="Answer tokens per second",
            unit="short",
            queries={"{{pod}}": "sum by (pod) (rate(vllm:generation_tokens_total[5m]))"},
            description="Tokens generated per server.",
            stacked=True,
        ),
    ),
)
