"""How much a server's tokens differ from the reference's, in all places together, and its answers' scores."""

from pydantic import Field

from ft_resources.strict_model import StrictModel


class Figures(StrictModel):
    """Differences in all places of all prompts."""

    prompts: int = Field(description="Prompts that were asked.")
    other_ids: int = Field(description="Of these, how many the router renders to other ids than evaluation.")
    tokens: int = Field(description="Places compared, each after the reference's tokens before it.")
    equal: int = Field(description="Prompts with the same likeliest token in every place.")
    argmax: float = Field(description="Share of places with the same likeliest token.")
    kl: float = Field(description="Mean KL divergence from the reference, nats.")
    p99: float = Field(description="99th percentile of the difference of the reference's token's log-probability.")
    max: float = Field(description="The largest such difference.")
    missing: int = Field(description="Places where the server's likeliest tokens lack the reference's.")


class SuiteScores(StrictModel):
    """A suite's items by both."""

    items: int = Field(description="Items that were compared.")
    evaluated: float = Field(description="The mean of their scores in the evaluation.")
    served: float = Field(description="The same through the server.")
    worse: int = Field(description="Items with a lower score through the server.")
    better: int = Field(description="Items with a higher one.")

    @property
    def sentence(self) -> str:
        return (
            f"{self.served:.3g} through the server, {self.evaluated:.3g} in the evaluation; of {self.items} items "
            f"{self.worse} are worse and {self.better} better"
        )
