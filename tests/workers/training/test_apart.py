"""Documents apart train as packed ones do; every model type is packed, runs apart or is refused with a reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import FAMILIES, KNOWN
from ft_assets.settings.catalogue.placed import PLACED as CATALOGUE
from ft_assets.settings.catalogue.refused import ENCODERS, REFUSED
from ft_assets.workers.packs.format import Layout, PackWriter
from ft_assets.workers.packs.isolation.apart import groups_of
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.leak_check import require_causal
from ft_assets.workers.training.train import train
from tests.workers.packs.corners import corners
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import Bench, content, make_bench, publish
from tests.workers.training.placed import PLACED, documents, losses_alone, refusal, sensitive
from tests.workers.training.test_train import rows
from tests.workers.training.variety import make_variety

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=60)


@given(LENGTHS, st.none() | st.integers(1, 400))
def test_documents_of_one_pass_are_of_similar_length_and_each_is_in_one(lengths: list[int], limit: int | None) -> None:
    groups = groups_of(lengths, limit)
    assert sorted(number for group in groups for number in group.documents) == list(range(len(lengths)))
    for group in groups:
        assert group.lengths == tuple(lengths[number] for number in group.documents)
        assert min(group.lengths) >= 0.8 * max(group.lengths)
        assert group.padding <= 0.25 * sum(group.lengths)
        assert limit is None or len({length > limit for length in group.lengths}) == 1


@pytest.mark.training
@pytest.mark.parametrize(
    "method", ["sft", *(pytest.param(each, marks=pytest.mark.long) for each in ("dpo", "orpo", "simpo")), "kto"]
)
def test_apart_and_packed_read_the_same_and_lose_the_same(method: str, tmp_path: Path) -> None:
    results = {}
    for mode in ("packed", "apart"):
        bench = make_variety(tmp_path / mode, method, "lora")
        bench.params["packing"] = mode
        results[mode] = train(bench.context())
    packed, apart = results["packed"], results["apart"]
    assert (packed.folder / "ledger.jsonl").read_bytes() == (apart.folder / "ledger.jsonl").read_bytes()
    for figure in ("loss", "tokens", "validation_loss"):
        found = [[row[-1] for row in rows(result, figure)] for result in (packed, apart)]
        assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert apart.facts["isolation"]["mode"] == "apart"
    assert 0 <= apart.facts["isolation"]["padding"] < 0.2


@pytest.mark.training
@pytest.mark.parametrize("variant", ["lora", "full"])
def test_documents_that_have_a_window_alone_train_to_the_same_bytes(variant: str, tmp_path: Path) -> None:
    results = []
    for mode in ("packed", "apart"):
        bench = alone_bench(tmp_path / mode, variant)
        bench.params["packing"] = mode
        results.append({name: data for name, data in content(train(bench.context())).items() if name != "recipe.json"})
    assert results[0] == results[1]


def alone_bench(root: Path, variant: str) -> Bench:
    """A training in which every window has one document, and every forward pass one window."""
    bench = make_bench(root, variant=variant, dropout=0.0, micro_batch_size=1, max_steps=4)
    random = np.random.default_rng(0)
    lengths = random.integers(6, 25, 24)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    learned = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) >= np.repeat(lengths // 2, lengths)
    layout = Layout(order=np.arange(24), window_offsets=np.arange(25))
    for split in ("train", "validation"):
        spool = made_spool(
            root / f"alone-{split}",
            lengths,
            input_ids=random.integers(10, 280, offsets[-1]).astype(np.int32),
            learned=learned,
            ids=[f"{number:064x}" for number in range(24)],
        )
        PackWriter(root / "alone", split, "chat", 24).write(spool, layout)
    bench.inputs["pack"] = publish(bench.store, root / "alone", "token_pack", "acme")
    return bench


def test_every_kind_of_the_causal_mapping_is_packed_or_apart_or_refused_with_a_reason() -> None:
    assert set(CAUSAL) <= KNOWN.keys() | REFUSED.keys() | ENCODERS.keys()
    catalogues: list[Any] = [FAMILIES, CATALOGUE, REFUSED, ENCODERS]
    assert sum(map(len, catalogues)) == len({kind for each in catalogues for kind in each})
    assert all((REFUSED | ENCODERS).values())
    assert KNOWN.keys() >= COMPOSITES.keys()
    assert CATALOGUE.keys() == PLACED.keys()


@pytest.mark.training
@pytest.mark.parametrize("kind", corners(PLACED, [*PLACED][::3]))
@torch.no_grad()
def test_documents_run_as_the_catalogue_says_and_lose_what_each_loses_alone(kind: str, tmp_path: Path) -> None:
    family, batch = PLACED[kind], documents()
    family.config().save_pretrained(tmp_path)
    choice = choose(tmp_path)
    assert choice.mode == family.mode
    model, plain = sensitive(family, **choice.loading), sensitive(family, attn_implementation=own(choice.attention))
    plain.load_state_dict(model.state_dict())
    choice.prepare(model)
    torch.testing.assert_close(token_losses(model, batch), losses_alone(plain, batch), rtol=1e-5, atol=1e-5)
    require_causal(model, batch)


def own(attention: str | None) -> str | None:
    """The architecture's own attention: eager if SDPA would leave something out."""
    return "eager" if attention == "eager" else None


@pytest.mark.training
@pytest.mark.parametrize("kind", [*REFUSED, *ENCODERS])
def test_what_the_catalogue_refuses_is_refused_for_that_reason(kind: str, tmp_path: Path) -> None:
    said = str(refusal(kind, tmp_path))
    wanted = REFUSED.get(kind) or ("looks ahead" if "later" in ENCODERS[kind] else "an encoder with a decoder")
    assert wanted in said
