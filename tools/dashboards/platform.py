"""The dashboard of the platform."""

from tools.dashboards.panel import Board, Panel

# All replicas of the API tell the same of the platform. What nobody has is not told: it is 0 where anything was.
_TOLD = "0 * max(ft_platform_looked_at_seconds)"
_WAITED = "max by (tenant) (ft_submissions_oldest_queued_seconds)"

BOARD = Board(
    title="Fine-tuning: platform",
    panels=(
        Panel(
            title="Open submissions",
            unit="short",
            queries={"open": f"sum(max by (tenant, state) (ft_submissions_open)) or {_TOLD}"},
            description="Submissions that have not ended.",
            kind="stat",
            width=4,
        ),
        Panel(
            title="Longest queue time",
            unit="s",
            queries={"wait": f"max(ft_submissions_oldest_queued_seconds) or {_TOLD}"},
            description="Age of the oldest submission in a queue.",
            kind="stat",
            width=4,
            limit=3600,
        ),
        Panel(
            title="Trainings with alerts",
            unit="short",
            queries={"trainings": f"sum(max by (tenant) (ft_trainings_alerted)) or {_TOLD}"},
            description="Running trainings that are slow, starved of data, or diverging. Details: ft status.",
            kind="stat",
            width=4,
            limit=1,
        ),
        Panel(
            title="Failed requests",
            unit="percentunit",
            queries={
                "share": '(sum(rate(ft_http_requests_total{status=~"5.."}[5m])) or vector(0)) '
                "/ sum(rate(ft_http_requests_total[5m]))"
            },
            description="Share of API requests in 5 minutes with a status of 500 or above.",
            kind="stat",
            width=4,
            limit=0.01,
        ),
        Panel(
            title="Unreadable records",
            unit="short",
            queries={"records": "max(ft_platform_unreadable_records)"},
            description="Corrupt records in the store. Details: the API's log.",
            kind="stat",
            width=4,
            limit=1,
        ),
        Panel(
            title="Age of these figures",
            unit="s",
            queries={"age": "time() - max(ft_platform_looked_at_seconds)"},
            description="Time since the platform's state was last read. It is read once a minute.",
            kind="stat",
            width=4,
            limit=600,
        ),
        Panel(
            title="Open submissions by state",
            unit="short",
            queries={"{{state}}": "sum by (state) (max by (tenant, state) (ft_submissions_open))"},
            description="Submissions of all tenants that have not ended.",
            stacked=True,
        ),
        Panel(
            title="Longest queue time by tenant",
            unit="s",
            queries={"{{tenant}}": f"topk(10, {_WAITED})"},
            description="Age of a tenant's oldest queued submission, ten longest.",
            limit=3600,
        ),
        Panel(
            title="Requests by status",
            unit="reqps",
            queries={"{{status}}": "sum by (status) (rate(ft_http_requests_total[5m]))"},
            description="Requests to the API, and to models through it.",
            stacked=True,
        ),
        Panel(
            title="Requests refused or failed",
            unit="reqps",
            queries={"{{status}}": 'sum by (status) (rate(ft_http_requests_total{status=~"[45].."}[5m]))'},
            description="4xx: client error or rate limit. 5xx: server error; see the log by x-request-id.",
        ),
        Panel(
            title="Time to first byte by route (p99)",
            unit="s",
            queries={
                "{{route}}": "topk(10, histogram_quantile(0.99, sum by (route, le) "
                "(rate(ft_http_request_seconds_bucket[5m]))))"
            },
            description="99th percentile of the time until the first byte of a response.",
            width=24,
        ),
        Panel(
            title="GPU-hours this month",
            unit="suffix: h",
            queries={"{{tenant}}": 'topk(10, max by (tenant) (ft_month_gpu_seconds{kind="billed"}) / 3600)'},
            description="Billed GPU time, ten highest tenants. The month starts in UTC.",
            kind="bargauge",
        ),
        Panel(
            title="Cost this month",
            unit="none",
            queries={"{{tenant}} ({{currency}})": "topk(10, max by (tenant, currency) (ft_month_cost))"},
            description="Cost of billed GPU time, ten highest tenants.",
            kind="bargauge",
            decimals=2,
        ),
    ),
)
