"""Reference log-probabilities: what the model says, document by document, the same bits whenever they are needed."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch.nn.functional import logsigmoid
from transformers import AutoModelForCausalLM

from ft_assets import worker
from ft_assets.control import identity
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.identity import training
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.format import Pack, PackWriter
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.packs.packing import one_by_one
from ft_assets.workers.training import reference
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.reference import document_logps, passes, read_reference, reference_logps, score
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.errors import BadData, CorruptArtifact
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkContext, WorkResult
from tests.fake_base import VOCABULARY, make_fake_base
from tests.made import spec_of
from tests.workers.packs.made import made_spool

PAIRS, LONGEST = 9, 40


def write_pairs(folder: Path, split: str, pairs: int, seed: int) -> Pack:
    """Pairs of random documents, whose second halves are learned, in buckets of four windows."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    lengths = random.integers(4, LONGEST + 1, 2 * pairs)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    within = np.arange(lengths.sum()) - starts
    spool = made_spool(
        folder.parent / f"spool-{folder.name}-{split}",
        lengths,
        input_ids=random.integers(6, VOCABULARY, lengths.sum()).astype(np.int32),
        learned=within >= np.repeat(lengths // 2, lengths),
        example=np.repeat(np.arange(pairs), 2),
    )
    layout = one_by_one(lengths.reshape(-1, 2), max_length=LONGEST, seed=seed, bucket=4)
    PackWriter(folder, split, "preference", LONGEST).write(spool, layout)
    return Pack.open(folder, split)


@dataclass
class Bench:
    """A store with a pack and references, and a fresh worker for each run."""

    root: Path
    runs: int = field(default=0)

    def __post_init__(self) -> None:
        self.store = open_store(str(self.root / "store"), create=True)
        for number, (split, pairs) in enumerate((("train", PAIRS), ("validation", 3))):
            write_pairs(self.root / "pack", split, pairs, seed=number)
        make_fake_base(self.root / "base")
        self.pack = self.publish("pack", "token_pack")
        self.base = self.publish("base", "base_model")

    def publish(self, folder: str, asset: str) -> Artifact:
        name = {"asset": asset, "folder": folder}
        address = Address(tenant="acme", asset=asset, fingerprint=digest(name))
        return Artifacts(self.store).publish(address, self.root / folder, writer="w1", identity=name, actor="test")

    def run(self, precision: str = "fp32", **inputs: Artifact) -> WorkResult:
        self.runs += 1
        request = WorkRequest(
            asset="reference_logps",
            tenant="acme",
            code_version="1",
            inputs={name: artifact.ref for name, artifact in {"pack": self.pack, **inputs}.items()},
            params={"weights": precision, "precision": precision, "device": "cpu"},
            label="acme.pairs.v1|tiny.v1",
        )
        spec = spec_of(self.store, request)
        return reference_logps(WorkContext(spec, self.store, self.root / f"scratch{self.runs}"))

    def open(self, split: str = "train") -> Pack:
        return Pack.open(self.root / "pack", split)

    def model(self) -> Any:
        return load_base(self.root / "base", TrainingSettings(precision="fp32"), full=True)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _stored(result: WorkResult, split: str = "train") -> np.ndarray:
    return np.load(result.folder / f"{split}.reference_logps.npy")


def _alone(model: Any, ids: np.ndarray, learned: np.ndarray) -> float:
    """One document's log-probability by plain Transformers, without anything of ours."""
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0].double()
    logps = logits.log_softmax(-1)[:-1].gather(1, torch.from_numpy(ids[1:].astype(np.int64))[:, None])[:, 0]
    return float(logps[torch.from_numpy(learned[1:].copy())].sum())


def test_stored_numbers_are_what_plain_transformers_says_of_each_document_alone(bench: Bench) -> None:
    result = bench.run(reference=bench.base)
    plain = AutoModelForCausalLM.from_pretrained(bench.root / "base", dtype=torch.float32)
    for split in ("train", "validation"):
        pack = bench.open(split)
        window = pack.read(range(len(pack)))
        edges = np.cumsum(window.document_lengths)[:-1]
        documents = zip(np.split(window.input_ids, edges), np.split(window.learned, edges), strict=True)
        expected = [_alone(plain, ids, learned) for ids, learned in documents]
        stored = _stored(result, split)
        assert (stored.dtype, len(stored)) == (np.float32, pack.index.documents)
        np.testing.assert_allclose(stored, expected, rtol=1e-5)


def test_two_runs_leave_the_same_bytes(bench: Bench) -> None:
    assert _stored(bench.run(reference=bench.base)).tobytes() == _stored(bench.run(reference=bench.base)).tobytes()


@pytest.mark.parametrize(
    "wrap", [lambda model: model, lambda model: get_peft_model(model, LoraConfig(r=4, lora_dropout=0.1))]
)
def test_the_first_loss_of_a_policy_that_is_the_reference_is_ln_2_in_every_bit(
    bench: Bench, wrap: Callable[[Any], Any]
) -> None:
    stored = torch.from_numpy(_stored(bench.run(reference=bench.base)))
    # In training mode and with gradients, in another order than the reference was computed in.
    pack, policy = bench.open(), wrap(bench.model()).train()
    for window in reversed(range(len(pack))):
        chosen, rejected = document_logps(policy, micro_batch(pack, [window]))
        reference_chosen, reference_rejected = stored[2 * window : 2 * window + 2]
        loss = -logsigmoid(0.1 * ((chosen - reference_chosen) - (rejected - reference_rejected)))
        assert loss.requires_grad
        assert loss.item() == np.float32(math.log(2))
    assert stored.unique().numel() > PAIRS


def test_several_windows_in_a_row_give_the_same_numbers_up_to_rounding(bench: Bench) -> None:
    pack, model = bench.open(), bench.model()
    with torch.no_grad():
        together = document_logps(model, micro_batch(pack, range(len(pack)))).numpy()
    np.testing.assert_allclose(together, score(model, pack), rtol=1e-5)


def test_a_document_without_learned_tokens_has_probability_one(bench: Bench) -> None:
    pack, model = bench.open(), bench.model()
    batch = micro_batch(pack, [0, 1])
    second = (batch.sources >= batch.boundaries[1]) & (batch.sources < batch.boundaries[2])
    for keep in (~second, torch.zeros_like(second)):
        fewer = type(batch)(
            input_ids=batch.input_ids,
            position_ids=batch.position_ids,
            boundaries=batch.boundaries,
            sources=batch.sources[keep],
            targets=batch.targets[keep],
        )
        logps = document_logps(model, fewer).tolist()
        assert [logp == 0 for logp in logps] == ([False, True, False, False] if keep.any() else [True] * 4)


def test_only_learned_positions_go_through_the_output_head(bench: Bench) -> None:
    model, pack, rows = bench.model(), bench.open(), []
    model.lm_head.register_forward_pre_hook(lambda module, args: rows.append(args[0].shape[-2]))
    score(model, pack)
    assert sum(rows) == pack.index.learned_tokens < pack.index.tokens


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(0, 50))
def test_passes_cover_the_windows_in_order_and_keep_within_their_tokens(lengths: list[int], tokens: int) -> None:
    found = list(passes(np.array(lengths, np.int64), tokens))
    assert [window for first, last in found for window in range(first, last)] == list(range(len(lengths)))
    assert all(last == first + 1 or sum(lengths[first:last]) <= tokens for first, last in found)
    # Nothing more would have fitted.
    assert all(sum(lengths[first : last + 1]) > tokens for first, last in found if last < len(lengths))


def test_an_adapter_on_its_base_is_a_reference_of_its_own(bench: Bench) -> None:
    tuned = get_peft_model(bench.model(), LoraConfig(r=4, init_lora_weights=False))
    tuned.save_pretrained(bench.root / "adapter")
    stored = _stored(bench.run(reference=bench.publish("adapter", "adapter"), base=bench.base))
    assert stored.tolist() == score(tuned, bench.open()).tolist()
    assert (stored != _stored(bench.run(reference=bench.base))).all()


def test_half_precision_is_computed_in_half_precision(bench: Bench) -> None:
    half, full = _stored(bench.run("bf16", reference=bench.base)), _stored(bench.run(reference=bench.base))
    np.testing.assert_allclose(half, full, rtol=2e-2)
    assert (half != full).any()


def test_a_log_probability_that_is_no_number_names_its_example(bench: Bench) -> None:
    model, pack = bench.model(), bench.open()
    passed: list[int] = []

    def break_the_fourth(module: Any, args: Any, logits: torch.Tensor) -> torch.Tensor:
        if not logits.numel():
            return logits
        passed.append(1)
        return logits * math.nan if len(passed) == 4 else logits

    model.lm_head.register_forward_hook(break_the_fourth)
    with pytest.raises(BadData, match="log-probability of nan") as caught:
        score(model, pack)
    row = pack.example_row(int(pack.read([3]).examples[0]))
    assert f"train row {row} of the upload" in caught.value.where


def test_a_column_that_does_not_fit_the_pack_is_refused(bench: Bench) -> None:
    result = bench.run(reference=bench.base)
    for path in result.folder.iterdir():
        (bench.root / "column").mkdir(exist_ok=True)
        (bench.root / "column" / path.name).write_bytes(path.read_bytes())
    artifact = bench.publish("column", "reference_logps")
    column = read_reference(artifact, bench.root / "cache", "train", bench.open())
    assert column.tolist() == _stored(result).tolist()
    with pytest.raises(CorruptArtifact, match="6 documents"):
        read_reference(artifact, bench.root / "cache", "train", bench.open("validation"))


def test_the_worker_knows_the_work() -> None:
    module, function = worker.WORK["reference_logps"].split(":")
    assert (module, getattr(reference, function)) == (reference.__name__, reference_logps)


def test_what_a_training_needs_is_keyed_by_pack_reference_and_arithmetic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ref(name: str) -> InputRef:
        return InputRef(address=f"acme/{name}/{digest(name)}", digest=digest(name))

    def request(precision: str, variant: str, pack: str = "pack", base: str = "base") -> WorkRequest:
        settings = {"training": {"precision": precision}, "variant": variant, "hardware": {"device": "cpu"}}
        recipe = resolve(Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", **settings}))[0]
        monkeypatch.setattr(training, "pair_recipe", lambda *keys: recipe)
        monkeypatch.setattr(training, "trained_recipe", lambda *keys: "tiny.v1")
        monkeypatch.setattr(training, "warm_start", lambda *keys: None)
        monkeypatch.setattr(training, "token_pack", lambda *keys: SimpleNamespace(ref=ref(pack)))
        monkeypatch.setattr(training, "base_model", lambda *keys: SimpleNamespace(ref=ref(base)))
        return identity.reference_logps_request(Artifacts(Store(str(tmp_path))), "acme.pairs.v1", "tiny.v1")

    usual = request("fp32", "lora")
    # In fp32 a frozen base and one that trains are the same numbers; in bf16 only the frozen one is held in bf16.
    assert request("fp32", "full").address == usual.address
    assert request("bf16", "full").params == {"weights": "fp32", "precision": "bf16", "device": "cpu"}
    others = [request("bf16", "lora"), request("bf16", "full"), request("fp32", "lora", pack="p2")]
    others.append(request("fp32", "lora", base="b2"))
    assert len({str(each.address) for each in (usual, *others)}) == 5
