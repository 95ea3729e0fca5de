"""The engine gives the results of one sequence at a time, whatever else is in the batch."""

import json
import math
import random
import re
import shutil
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ft_assets.workers.serving.engine import Engine
from ft_assets.workers.serving.requests import Event, Read, Request, Written
from ft_resources.errors import NotFound
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken, PromptTooLong, ServerBusy
from ft_resources.serving.finite import require_finite
from ft_resources.serving.server import Sampling
from tests.workers.serving.world import BASE, Asked, alone, ask, make_adapter, make_engine, plain, scored_alone

pytestmark = pytest.mark.training
EXACT = 1e-5


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    draws = random.Random(seed)
    return [[draws.randrange(6, 288) for _ in range(draws.randrange(1, 40))] for _ in range(count)]


def require_equal(asked: Asked, model: object, tokens: int) -> None:
    written, _, _ = asked.answer()
    ids, logprobs = alone(model, asked.request.prompt, tokens)
    assert [token.id for token in written] == ids
    assert [token.logprob for token in written] == pytest.approx(logprobs, abs=EXACT)


def test_base_and_adapters_in_one_batch_answer_as_each_alone(
    engine: Engine, base: Path, adapters: dict[str, Path]
) -> None:
    names = ("acme.support@1", "acme.support@2", "rs")
    for name in names:
        engine.load(name, adapters[name]).result()
    models = {BASE: plain(base), **{name: plain(base, adapters[name]) for name in names}}
    # Lengths and numbers of tokens differ: rows join and leave at different steps.
    asked = [
        (ask(engine, name, prompt, max_tokens=4 + place % 9), models[name], 4 + place % 9)
        for place, (prompt, name) in enumerate(zip(prompts(24), list(models) * 6, strict=True))
    ]
    for each in asked:
        require_equal(*each)
    assert len({tuple(alone(model, [7, 8, 9], 8)[0]) for model in models.values()}) == len(models)


@pytest.mark.parametrize("other", ["dora", "head"])
def test_an_adapter_that_does_not_mix_takes_the_batch_apart(
    other: str, engine: Engine, base: Path, adapters: dict[str, Path]
) -> None:
    engine.load("rs", adapters["rs"]).result()
    before = [
        ask(engine, name, prompt, max_tokens=60) for name, prompt in zip([BASE, "rs"] * 2, prompts(4, 1), strict=True)
    ]
    for each in before:
        each.first()
    engine.load(other, adapters[other]).result()
    after = [ask(engine, name, prompt) for name, prompt in zip([other, "rs", BASE] * 2, prompts(6, 2), strict=True)]
    models = {BASE: plain(base), "rs": plain(base, adapters["rs"]), other: plain(base, adapters[other])}
    for each, tokens in [*((each, 60) for each in before), *((each, 16) for each in after)]:
        require_equal(each, models[each.request.model], tokens)
    engine.unload(other).result()
    for each in [ask(engine, name, [9, 8, 7]) for name in (BASE, "rs")]:
        require_equal(each, models[each.request.model], 16)


def test_prompts_are_scored_as_alone(engine: Engine, base: Path, adapters: dict[str, Path]) -> None:
    engine.load("rs", adapters["rs"]).result()
    others = [ask(engine, BASE, prompt, max_tokens=30) for prompt in prompts(3)]
    ids = [number % 282 + 6 for number in range(250)]
    for name, model in ((BASE, plain(base)), ("rs", plain(base, adapters["rs"]))):
        written, scores, _ = ask(engine, name, ids, scores=3, max_tokens=2).answer()
        assert [token.id for token in scores] == ids
        assert scores[0].logprob is None
        assert [token.logprob for token in scores[1:]] == pytest.approx(scored_alone(model, ids), abs=EXACT)
        assert all(len(token.top) == 3 for token in scores[1:])
        assert [token.id for token in written] == alone(model, ids, 2)[0]
    for each in others:
        each.answer()


def test_a_seed_draws_the_same_in_any_company(engine: Engine) -> None:
    def draw(seed: int) -> list[int]:
        tokens, _, _ = ask(engine, BASE, [7, 8, 9], temperature=1.0, top_p=0.9, seed=seed).answer()
        return [token.id for token in tokens]

    quiet = draw(5)
    others = [ask(engine, BASE, prompt, max_tokens=60, temperature=1.0) for prompt in prompts(5)]
    assert draw(5) == quiet != draw(6)
    for each in others:
        each.answer()


def test_a_very_small_top_p_takes_the_likeliest(engine: Engine, base: Path) -> None:
    tokens, _, _ = ask(engine, BASE, [7, 8, 9], temperature=1.0, top_p=1e-9, max_tokens=5).answer()
    assert [token.id for token in tokens] == alone(plain(base), [7, 8, 9], 5)[0]


def test_a_stop_token_ends_an_answer(engine: Engine, base: Path) -> None:
    ids = alone(plain(base), [7, 8, 9], 16)[0]
    tokens, _, reason = ask(engine, BASE, [7, 8, 9], stop_token_ids=(ids[3],)).answer()
    assert reason == "stop"
    assert [token.id for token in tokens] == ids[: ids.index(ids[3]) + 1]


def test_a_request_in_flight_keeps_its_adapter_when_that_is_unloaded(
    engine: Engine, base: Path, adapters: dict[str, Path]
) -> None:
    engine.load("rs", adapters["rs"]).result()
    asked = ask(engine, "rs", [7, 8, 9], max_tokens=100)
    asked.first()
    engine.unload("rs").result()
    with pytest.raises(NotFound, match="rs"):
        ask(engine, "rs", [7, 8, 9])
    require_equal(asked, plain(base, adapters["rs"]), 100)


def test_more_names_are_served_than_are_in_memory(base: Path, adapters: dict[str, Path]) -> None:
    engine = make_engine(base, max_adapters=2)
    names = ("acme.support@1", "acme.support@2", "rs")
    try:
        for name in names:
            engine.load(name, adapters[name]).result()
        assert [each.name for each in engine.adapters()] == list(names)
        asked = [ask(engine, name, prompt) for name, prompt in zip(names * 4, prompts(12), strict=True)]
        for each in asked:
            require_equal(each, plain(base, adapters[each.request.model]), 16)
    finally:
        engine.close()


def test_an_adapter_in_use_is_never_evicted(base: Path, adapters: dict[str, Path]) -> None:
    engine = make_engine(base, max_adapters=1)
    try:
        engine.load("rs", adapters["rs"]).result()
        asked = ask(engine, "rs", [7, 8, 9], max_tokens=240)
        asked.first()
        with pytest.raises(ServerBusy):
            engine.load("dora", adapters["dora"]).result()
        require_equal(asked, plain(base, adapters["rs"]), 240)
        engine.load("dora", adapters["dora"]).result()
    finally:
        engine.close()


def test_a_name_never_means_other_bytes(engine: Engine, adapters: dict[str, Path]) -> None:
    engine.load("rs", adapters["rs"]).result()
    engine.load("rs", adapters["rs"]).result()
    engine.unload("rs").result()
    for name in ("rs", BASE):
        with pytest.raises(NameTaken):
            engine.load(name, adapters["dora"]).result()
    engine.load("rs", adapters["rs"]).result()


def test_files_that_change_on_disk_are_not_served(base: Path, adapters: dict[str, Path], tmp_path: Path) -> None:
    engine = make_engine(base, max_adapters=1)
    folder = shutil.copytree(adapters["rs"], tmp_path / "copy")
    try:
        engine.load("copy", folder).result()
        engine.load("dora", adapters["dora"]).result()
        shutil.copy(adapters["acme.support@1"] / "adapter_model.safetensors", folder)
        with pytest.raises(BadAdapter, match="changed"):
            ask(engine, "copy", [7, 8, 9]).answer()
    finally:
        engine.close()


def test_a_folder_that_is_no_adapter_to_this_base_is_refused(
    engine: Engine, base: Path, adapters: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    cut = shutil.copytree(adapters["rs"], tmp_path / "cut")
    weights = cut / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    narrow = shutil.copytree(adapters["rs"], tmp_path / "narrow")
    config = narrow / "adapter_config.json"
    config.write_text(config.read_text().replace('"r": 4', '"r": 3'))
    lacking = shutil.copytree(adapters["rs"], tmp_path / "lacking")
    config = lacking / "adapter_config.json"
    config.write_text(config.read_text().replace("down_proj", "up_proj"))
    for folder in (tmp_path / "empty", cut, narrow, lacking):
        with pytest.raises(BadAdapter):
            engine.load("bad", folder).result()
    with pytest.raises(NotFound):
        engine.load("bad", tmp_path / "missing").result()
    engine.load("bad", adapters["rs"]).result()
    for name, model in ((BASE, plain(base)), ("bad", plain(base, adapters["rs"]))):
        require_equal(ask(engine, name, [7, 8, 9]), model, 16)


@pytest.mark.parametrize("setting", [math.nan, math.inf])
def test_an_adapter_with_a_setting_that_is_no_number_is_refused(engine, adapters, tmp_path, setting: float) -> None:
    folder = shutil.copytree(adapters["rs"], tmp_path / "copy")
    config = folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "lora_alpha": setting}))
    with pytest.raises(BadAdapter, match="lora_alpha is not finite"):
        engine.load("bad", folder).result()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_an_adapter_with_a_weight_that_is_no_number_is_refused(engine, adapters, tmp_path, dtype, number) -> None:
    folder = shutil.copytree(adapters["rs"], tmp_path / "copy")
    file = folder / "adapter_model.safetensors"
    weights = {name: each.to(dtype) for name, each in load_file(file).items()}
    save_file(weights, file)
    require_finite(folder)
    last = sorted(weights)[-1]
    weights[last].view(-1)[-1] = number
    save_file(weights, file)
    with pytest.raises(BadAdapter, match=f"the weights {re.escape(last)} are not finite"):
        engine.load("bad", folder).result()


def test_what_can_never_be_answered_is_refused_at_once(engine: Engine) -> None:
    with pytest.raises(PromptTooLong, match="256"):
        ask(engine, BASE, [7] * 250, max_tokens=7)
    for prompt in ([], [288], [-1]):
        with pytest.raises(BadRequest):
            ask(engine, BASE, prompt)
    with pytest.raises(NotFound):
        ask(engine, "unknown", [7])
    assert ask(engine, BASE, [7] * 249, max_tokens=7).answer()[2] in ("stop", "length")


def test_an_abandoned_request_makes_room(base: Path) -> None:
    engine = make_engine(base, max_rows=1, max_waiting=1)
    try:
        asked = ask(engine, BASE, [7, 8, 9], max_tokens=240)
        asked.first()
        waiting = ask(engine, BASE, [7])
        with pytest.raises(ServerBusy):
            ask(engine, BASE, [8])
        asked.request.cancelled = True
        assert waiting.answer()[2] in ("stop", "length")
        assert engine.figures().generation_tokens < 240
        assert engine.figures().running == 0
    finally:
        engine.close()


def test_a_request_that_waits_for_room_is_not_overtaken_for_ever(base: Path, adapters: dict[str, Path]) -> None:
    engine = make_engine(base, max_adapters=1, patience_s=0.0)
    try:
        for name in ("rs", "dora"):
            engine.load(name, adapters[name]).result()
        order: list[str] = []
        ended = threading.Semaphore(0)

        def submit(who: str, model: str, tokens: int) -> None:
            def tell(event: Event) -> None:
                if isinstance(event, Read):
                    order.append(who)
                elif not isinstance(event, Written) or event.reason:
                    ended.release()

            engine.submit(Request(model, [7, 8, 9], Sampling(max_tokens=tokens), tell))

        running = ask(engine, "dora", [7, 8, 9], max_tokens=240)
        running.first()
        submit("blocked", "rs", 1)
        # These would keep "dora" in memory, and "rs" out of it, if they went first.
        for number in range(3):
            submit(f"later {number}", "dora", 20)
        for _ in range(4):
            assert ended.acquire(timeout=60)
        assert order == ["blocked", "later 0", "later 1", "later 2"]
        running.answer()
    finally:
        engine.close()


def test_a_closed_engine_fails_what_it_holds(base: Path) -> None:
    engine = make_engine(base, max_rows=1)
    asked = [ask(engine, BASE, [7, 8, 9], max_tokens=240) for _ in range(2)]
    asked[0].first()
    engine.close()
    for each in asked:
        with pytest.raises(Exception, match="ended"):
            each.answer()


def test_another_base_of_the_same_shape_gets_an_adapter_of_its_own(base: Path, tmp_path: Path) -> None:
    wide = make_adapter(tmp_path / "wide", base, seed=9, r=8, target_modules="all-linear")
    engine = make_engine(base)
    try:
        engine.load("wide", wide).result()
        require_equal(ask(engine, "wide", [7, 8, 9]), plain(base, wide), 16)
    finally:
        engine.close()


def test_a_temperature_near_nothing_takes_the_likeliest_token_and_fails_nobody(engine: Engine) -> None:
    asked = [ask(engine, BASE, [7, 8, 9], temperature=each, seed=1) for each in (1e-308, 5e-324, 0.0)]
    tiny, smallest, greedy = ([token.id for token in each.answer()[0]] for each in asked)
    assert tiny == smallest == greedy
