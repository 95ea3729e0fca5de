"""The general suites: no score gets clearly worse."""

from pydantic import Field

from ft_assets.settings.catalogue.gate import Gate
from ft_resources.settings import Settings


class BenchmarkRegressionGate(Settings):
    """The candidate may not be clearly worse than its base on any suite."""

    max_drop_points: float = Field(
        2.0, ge=0.0, le=100.0, description="Maximum drop of a suite's score, in percentage points."
    )
    margin_points: float = Field(
        1.0, ge=0.0, le=100.0, description="Margin for the uncertainty of the drop, in percentage points."
    )


REGRESSION = Gate(
    name="regression",
    claim="The candidate is not clearly worse than its base on any general suite.",
    setting="benchmark_regression",
    settings=BenchmarkRegressionGate,
    measure=lambda evidence, settings, suites: (evidence.suites, settings, suites),
    verdict="ft_assets.workers.evals.gate_regression:judge_suites",
    remedy="lower the learning rate or the LoRA rank, train fewer epochs, or mix general text into the dataset",
    always=True,
    stricter={"max_drop_points": "<", "margin_points": "<"},
)
