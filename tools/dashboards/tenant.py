"""The dashboard of a tenant."""

from tools.dashboards.panel import Board, Panel

_OF = '{tenant="$tenant"}'
# What the tenant has none of is not told: it is 0 where anything of the platform was.
_TOLD = "0 * max(ft_platform_looked_at_seconds)"
_WAITED = f"max(ft_submissions_oldest_queued_seconds{_OF}) or {_TOLD}"

BOARD = Board(
    title="Fine-tuning: tenant",
    # Tenants with open work, and those that used anything this month.
    variables={"tenant": 'label_values({__name__=~"ft_submissions_open|ft_month_cost"}, tenant)'},
    panels=(
        Panel(
            title="Open submissions",
            unit="short",
            queries={"open": f"sum(max by (state) (ft_submissions_open{_OF})) or {_TOLD}"},
            description="Submissions that have not ended.",
            kind="stat",
            width=6,
        ),
        Panel(
            title="Longest queue time",
            unit="s",
            queries={"wait": _WAITED},
            description="Age of the oldest submission in the queue.",
            kind="stat",
            width=6,
            limit=3600,
        ),
        Panel(
            title="Trainings with alerts",
            unit="short",
            queries={"trainings": f"max(ft_trainings_alerted{_OF}) or {_TOLD}"},
            description="Running trainings that are slow, starved of data, or diverging. Details: ft status.",
            kind="stat",
            width=6,
            limit=1,
        ),
        Panel(
            title="Cost this month",
            unit="none",
            queries={"{{currency}}": f"max by (currency) (ft_month_cost{_OF})"},
            description="Cost of billed GPU time. The month starts in UTC.",
            kind="stat",
            width=6,
            decimals=2,
        ),
        Panel(
            title="Open submissions by state",
            unit="short",
            queries={"{{state}}": f"max by (state) (ft_submissions_open{_OF})"},
            description="Submissions that have not ended.",
            stacked=True,
        ),
        Panel(
            title="Longest queue time over time",
            unit="s",
            queries={"wait": _WAITED},
            description="Age of the oldest submission in the queue.",
            limit=3600,
        ),
        Panel(
            title="Tokens per second by training",
            unit="short",
            queries={"{{dataset}} {{recipe}}": f"max by (dataset, recipe) (ft_training_tokens_per_s{_OF})"},
            description="Training throughput per running training, on all its GPUs.",
            width=24,
        ),
        Panel(
            title="Ended this month",
            unit="short",
            queries={"{{outcome}}": f"sort_desc(max by (outcome) (ft_month_jobs{_OF}))"},
            description="Submissions that ended, by outcome.",
            kind="bargauge",
        ),
        Panel(
            title="GPU-hours this month",
            unit="suffix: h",
            queries={"{{kind}}": f"sort_desc(max by (kind) (ft_month_gpu_seconds{_OF}) / 3600)"},
            description="Flagged: billing decision pending. Overage: billed beyond the soft quota.",
            kind="bargauge",
        ),
    ),
)
