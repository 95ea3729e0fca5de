"""A real vLLM loads each export of llm-compressor, and answers as it was evaluated."""

from pathlib import Path

import pytest
import torch

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports.quantized import quantize_model
from ft_assets.workers.serving.parity.asking import ask
from ft_assets.workers.serving.parity.comparison import compare, summarise
from ft_assets.workers.serving.parity.figures import Figures
from ft_assets.workers.serving.parity.limits import LIMITS, Precision
from ft_assets.workers.serving.parity.reference import Reference
from ft_resources.store_marker import open_store
from tests.vllm.running import RealVllm
from tests.workers.evals.world import World
from tests.workers.exports.made import Made
from tests.workers.exports.test_gguf import quantized

pytestmark = [pytest.mark.vllm, pytest.mark.llm_compressor]
FORMATS: dict[str, Precision] = {
    "gptq-w8a8": "8 bits",
    "gptq-w4a16": "4 bits",
    "awq-w4a16": "4 bits",
    "fp8-dynamic": "8 bits",
}
PROMPTS = torch.randint(8, 280, (8, 12), generator=torch.Generator().manual_seed(0)).tolist()
_ANSWER = 16


@pytest.mark.parametrize(("name", "precision"), FORMATS.items())
def test_vllm_answers_with_an_export_as_it_was_evaluated(tmp_path: Path, name: str, precision: Precision) -> None:
    world = World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)
    folder = quantize_model(world.context(quantized(Made.make(world, wide=True, dtype="bfloat16"), name))).folder
    reference = Reference(load_model(folder, device="cpu"), ends=[])
    answers = reference.answers(PROMPTS, _ANSWER)
    # With LoRA switched on, vLLM 0.32 fails on a CPU for W8A8; an export has no adapter beside it.
    server = RealVllm(folder, "exported", tmp_path, "bfloat16", lora=False, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1")
    try:
        server.start()
        found = ask(server.client, "exported", list(zip(PROMPTS, answers, strict=True)), sorted(reference.ends))
    finally:
        server.close()

    def compared(with_what: Reference) -> Figures:
        rows = [with_what.logprobs(*each) for each in zip(PROMPTS, answers, strict=True)]
        places = [list(map(compare, *each)) for each in zip(rows, answers, found, strict=True)]
        return summarise(places, other_ids=0)

    # Which token comes first is not asked: random weights have near ties, and the server rounds to bfloat16.
    figures, limits = compared(reference), LIMITS[precision]
    print(name, figures)
    assert figures.tokens > 50
    assert limits.kl is not None
    assert figures.kl <= limits.kl
    assert figures.p99 <= (limits.p99 or 1.0)
    of_base = compared(Reference(load_model(world.folder / "base-bfloat16", device="cpu"), ends=[]))
    assert of_base.kl > 10 * figures.kl
