"""A judge of the family that it judges, or of the one that wrote the data, does not judge unless it is allowed."""

import pytest

from ft_assets.records.model_families import families_of
from ft_assets.records.neutrality import require_neutral, writers_of
from ft_assets.settings.recipe.judges import JudgeModel
from ft_resources.errors import BadRecipe
from tests.workers.evals.world import World

LLAMA = ("hub:meta-llama/Llama-3.1-8B", "LlamaForCausalLM")


def judge(model: str, **settings: object) -> JudgeModel:
    return JudgeModel.model_validate({"endpoint": "https://judge.example.com/v1", "model": model, **settings})


def refusal(model: JudgeModel, *, base: tuple[str, ...] = LLAMA, written_by: tuple[str, ...] = ()) -> str:
    try:
        require_neutral(model, (), base=base, written_by=written_by)
    except BadRecipe as error:
        return error.what
    return ""


def test_a_judge_of_the_bases_family_is_refused_by_name_and_by_architecture() -> None:
    assert "is from the base's family (Llama)" in refusal(judge("meta-llama/Llama-3.3-70B-Instruct"))
    assert "(Llama)" in refusal(judge("llama-judge"), base=("folder:sha256:ab", "LlamaForCausalLM"))
    assert "(Llama)" in refusal(judge("DeepSeek-R1-Distill-Llama-70B"))
    assert refusal(judge("Qwen/Qwen3-32B")) == ""
    assert refusal(judge("Llama-3.3-70B", allow_same_family=True)) == ""


def test_a_judge_of_the_family_that_wrote_the_answers_is_refused() -> None:
    assert "family of gpt-4o, which generated" in refusal(judge("gpt-4.1"), written_by=("gpt-4o",))
    assert "which generated the dataset's answers" in refusal(judge("house-1", family="Qwen"), written_by=("House-1",))
    assert refusal(judge("gpt-4.1"), written_by=("claude-3",)) == ""


def test_what_nobody_knows_is_said_and_needs_leave() -> None:
    assert "the family of the judge our-judge at judge.example.com is unknown" in refusal(judge("our-judge"))
    assert refusal(judge("our-judge", family="Qwen")) == ""
    assert "is from the base's family (Llama)" in refusal(judge("our-judge", family="llama"))
    assert "family of the base" in refusal(judge("gpt-4.1"), base=("folder:sha256:00", "OddForCausalLM"))
    assert "family of our-writer" in refusal(judge("gpt-4.1"), written_by=("our-writer",))
    assert refusal(judge("our-judge", allow_same_family=True), written_by=("our-writer",)) == ""


def test_the_endpoints_host_tells_a_family_too() -> None:
    model = JudgeModel(endpoint="https://api.openai.com/v1", model="best")
    assert "family of gpt-4o" in refusal(model, written_by=("gpt-4o",))


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("Qwen2ForCausalLM", ("Qwen",)),
        ("MixtralForCausalLM", ("Mistral",)),
        ("Gemma3ForCausalLM", ("Gemini",)),
        ("PhiForCausalLM", ("Phi",)),
        ("Phi3ForCausalLM", ("Phi",)),
        ("GptOssForCausalLM", ("GPT",)),
        ("DeepSeek-R1-Distill-Qwen-7B", ("DeepSeek", "Qwen")),
        ("BertModel", ()),
    ],
)
def test_families_are_told_from_names_and_architectures(name: str, families: tuple[str, ...]) -> None:
    assert families_of(name) == families


def test_who_wrote_a_dataset_is_asked_of_what_is_mixed_in_too(world: World) -> None:
    mixed = world.publish("dataset", {"a": b"1"}, params={"policy": {"generated_by": "claude-3"}})
    whole = world.publish(
        "dataset", {"a": b"2"}, inputs={"mix:acme.other.v1": mixed}, params={"policy": {"generated_by": "gpt-4o"}}
    )
    assert writers_of(world.artifacts, whole) == ["gpt-4o", "claude-3"]
    assert writers_of(world.artifacts, world.dataset()) == []
