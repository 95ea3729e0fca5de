"""An accepted candidate becomes a folder that needs only its base, and the way back from it is complete."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.workers.adapters.export import export_adapter
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_assets.workers.adapters.rejection import rejection_reason
from ft_assets.workers.base_models.contents import PROCESSOR_FILES
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadBase, UserError
from ft_resources.work import WorkRequest
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.workers.base_models.made import rebuilt_base
from tests.workers.evals.world import REVISION, SOURCE, World


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_bytes())


def base_in(world: World, folder: Path) -> Artifact:
    return world.publish("base_model", folder, tenant="shared", facts={"source": SOURCE, "revision": REVISION})


def exported_of(world: World, base: Artifact, checkpoint: Artifact) -> Path:
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    return export_adapter(world.context(request)).folder


def test_an_accepted_candidate_becomes_a_folder_that_needs_only_its_base(world, base, accepted) -> None:
    assert rejection_reason(world.artifacts, accepted) == ""
    result = export_adapter(world.context(accepted))
    names = {path.name for path in result.folder.iterdir()}
    model = {"adapter_config.json", "adapter_model.safetensors"}
    tokenizer = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert names == model | tokenizer | {"README.md", "lineage.json", "verdicts.json"}
    assert (result.folder / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    settings_of_base = {k: v for k, v in json.loads(base.read("tokenizer_config.json")).items() if k != "chat_template"}
    assert read_json(result.folder, "tokenizer_config.json") == settings_of_base
    config = read_json(result.folder, "adapter_config.json")
    assert (config["base_model_name_or_path"], config["revision"]) == ("acme/tiny", REVISION)
    outcomes = {v["gate"]: v["outcome"] for v in read_json(result.folder, "verdicts.json")}
    unasked = dict.fromkeys(("safety", "judge", "scores"), "not required")
    assert outcomes == {"regression": "pass", "task_gain": "pass", **unasked}
    assert result.facts["line"] == "acme.things.tiny"
    assert result.facts["metrics"]["exact_match"] == {"base": 0.2, "candidate": 0.4}
    card = (result.folder / "README.md").read_text()
    for words in ("acme.things.v1", "tiny.v1", "20.0%", "40.0%", "base_model: acme/tiny", "✅ pass", "PeftModel"):
        assert words in card
    again = export_adapter(world.context(accepted))
    assert {p.name: p.read_bytes() for p in result.folder.iterdir()} == {
        p.name: p.read_bytes() for p in again.folder.iterdir()
    }


def test_the_recipes_template_goes_before_the_bases(world: World, accepted: WorkRequest) -> None:
    request = replace(accepted, params={**accepted.params, "chat_template": "{{ messages }}"})
    result = export_adapter(world.context(request))
    assert (result.folder / "chat_template.jinja").read_text() == "{{ messages }}"


def test_the_exported_tokenizer_gives_the_ids_of_training_where_the_bases_settings_would_not(world: World) -> None:
    """transformers 5 puts spaces elsewhere than the tokenizer.json of Llama 2, TinyLlama or Phi-3 says."""
    from transformers import AutoTokenizer

    folder = rebuilt_base(world.folder / "rebuilt", None, chat_template=CHAT_TEMPLATE)
    base = base_in(world, folder)
    checkpoint = world.checkpoint(base)
    exported = exported_of(world, base, checkpoint)
    assert (exported / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert (exported / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    served = AutoTokenizer.from_pretrained(exported)
    messages = [{"role": "user", "content": " hi\n"}, {"role": "assistant", "content": "the\u200b 🙂"}]
    packs = ChatTokenizer.load(folder)
    text = served.apply_chat_template(messages, tokenize=False)
    ids = packs.tokenizer.encode(text, add_special_tokens=False).ids
    assert served.apply_chat_template(messages)["input_ids"] == ids
    stock = AutoTokenizer.from_pretrained(folder)
    assert stock.apply_chat_template(messages)["input_ids"] != ids


def test_a_full_model_whose_tokenizer_cannot_be_served_as_trained_is_refused(world: World) -> None:
    folder = rebuilt_base(world.folder / "qwen", "qwen2", chat_template=CHAT_TEMPLATE)
    base = base_in(world, folder)
    files = {"final/config.json": (folder / "config.json").read_bytes(), "recipe.json": b"{}"}
    checkpoint = world.publish("checkpoint", files, inputs={"base": base})
    with pytest.raises(BadBase, match="transformers, loading this folder, would tokenize texts differently than train"):
        exported_of(world, base, checkpoint)


def test_a_full_model_of_a_composite_keeps_what_prepares_its_pictures_and_names_the_class_that_loads_it(world) -> None:
    folder = make_fake_base(world.folder / "seeing")
    config = {**json.loads((folder / "config.json").read_bytes()), "model_type": "gemma3", "vision_config": {}}
    (folder / "config.json").write_text(json.dumps(config))
    for name in PROCESSOR_FILES:
        (folder / name).write_text(f'{{"name": "{name}"}}')
    base = base_in(world, folder)
    files = {f"final/{name}": (folder / name).read_bytes() for name in ("config.json", "model.safetensors")}
    recipe = {"method": "sft", "variant": "full", "training": {"epochs": 1}}
    checkpoint = world.publish("checkpoint", {**files, "recipe.json": canonical_json(recipe)}, inputs={"base": base})
    exported = exported_of(world, base, checkpoint)
    for name in PROCESSOR_FILES:
        assert (exported / name).read_bytes() == (folder / name).read_bytes()
    assert "AutoModelForImageTextToText.from_pretrained(folder)" in (exported / "README.md").read_text()


@pytest.mark.training
def test_the_exported_folder_loads_with_transformers_and_peft(world, base, accepted) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = export_adapter(world.context(accepted)).folder
    model = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base.folder(world.folder)), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|user|>hi<|end|><|assistant|>"
    assert model.active_adapters == ["default"]


@pytest.mark.training
def test_the_card_s_lines_load_the_folder_and_ask_it(
    world, base, accepted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = export_adapter(world.context(accepted)).folder
    (lines,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    fetched_before(base.folder(world.folder), "acme/tiny", REVISION, world.folder / "hub", monkeypatch)
    monkeypatch.chdir(folder)
    exec(compile(lines.replace("max_new_tokens=256", "max_new_tokens=4"), "README.md", "exec"), {})
    assert capsys.readouterr().out


def fetched_before(folder: Path, repo: str, revision: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Hub's client find ``repo`` at ``revision`` in its ``cache``, and nothing else anywhere."""
    from huggingface_hub import constants

    home, commit = cache / f"models--{repo.replace('/', '--')}", (revision * 40)[:40]
    shutil.copytree(folder, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / revision).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.mark.training
@pytest.mark.parametrize(
    ("source", "more"),
    [
        ("folder", {}),
        ("folder", {"use_dora": True}),
        ("folder", {"modules_to_save": ["norm"]}),
        ("folder", {"target_modules": ["q_proj", "embed_tokens"]}),
        ("hub", {}),
    ],
    ids=["LoRA", "DoRA", "a module in full", "an embedding", "a base of the Hub"],
)
def test_a_downloaded_adapter_loads_with_peft_after_the_one_command_that_is_printed(
    world: World, source: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_STORE", world.store.url)
    peft, torch = pytest.importorskip("peft"), pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    from_hub = source == "hub"
    source, revision = ("hub:acme/tiny", "c" * 40) if from_hub else (f"folder:sha256:{'a' * 64}", "a" * 64)
    facts = {"source": source, "revision": revision}
    base = world.publish("base_model", make_fake_base(world.folder / "made"), tenant="acme", facts=facts)
    settings = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", "init_lora_weights": False, **more}
    trained = peft.get_peft_model(
        AutoModelForCausalLM.from_pretrained(base.folder(world.folder / "base")), peft.LoraConfig(**settings)
    )
    trained.save_pretrained(world.folder / "final")
    config = read_json(world.folder / "final", "adapter_config.json")
    config |= {"base_model_name_or_path": source, "revision": revision}
    files = {f"final/{path.name}": path.read_bytes() for path in (world.folder / "final").iterdir()}
    files["final/adapter_config.json"] = json.dumps(config).encode()
    files["recipe.json"] = canonical_json({"method": "sft", "variant": "lora", "training": {"epochs": 1}})
    checkpoint = world.publish("checkpoint", files, inputs={"base": base})
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    adapter = world.publish_result(request, export_adapter(world.context(request)))
    home = world.folder / "home"
    told = CliRunner().invoke(app, ["adapter", "download", str(adapter.address), str(home)]).stderr
    command = re.search(r": ft (adapter base .+)$", " ".join(told.split()))
    assert command is not None
    ids = torch.arange(9)[None]
    if from_hub:
        # The folder names repository and commit: PEFT fetches them by itself.
        fetched_before(world.folder / "made", "acme/tiny", revision, world.folder / "hub", monkeypatch)
        loaded = peft.AutoPeftModelForCausalLM.from_pretrained(str(home)).eval()
        assert torch.equal(loaded(ids).logits, trained.eval()(ids).logits)
        shutil.rmtree(world.folder / "hub")
    done = CliRunner().invoke(app, command[1].split())
    assert done.exit_code == 0, done.output
    loaded = peft.AutoPeftModelForCausalLM.from_pretrained(str(home)).eval()
    assert torch.equal(loaded(ids).logits, trained.eval()(ids).logits)


def test_a_base_is_not_named_in_a_folder_of_another_adapter(
    world: World, base: Artifact, accepted: WorkRequest
) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    home, other = world.folder / "home", world.folder / "other"
    api.download_adapter(str(adapter.address), home, store=world.store)
    (home / "lineage.json").write_text("{}")
    for folder in (home, other):
        with pytest.raises(UserError, match="is not there"):
            api.download_base(str(adapter.address), world.folder / "copy", adapter=folder, store=world.store)
    assert not (world.folder / "copy").exists()


def test_an_adapter_that_names_no_revision_of_its_base_is_refused(world: World, base: Artifact) -> None:
    config = {"base_model_name_or_path": "hub:acme/tiny", "revision": None}
    files = {"final/adapter_config.json": json.dumps(config).encode(), "recipe.json": b"{}"}
    loose = world.publish("checkpoint", files, inputs={"base": base})
    with pytest.raises(UserError, match="at revision None, but was trained on hub:acme/tiny at 0123abcd"):
        exported_of(world, base, loose)


def test_lineage_goes_back_to_the_base_every_hash_holds_and_a_missing_ancestor_is_named(world, base, accepted) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    tree = lineage(world.artifacts, str(adapter.address))
    assert set(tree.inputs) == {"base", "checkpoint", "eval_report"}
    assert tree.inputs["checkpoint"].inputs["base"].address == str(base.address)
    assert [name for _, name, _ in tree.walk()][:3] == ["", "base", "checkpoint"]
    stored = json.loads(adapter.read("lineage.json"))
    assert stored["inputs"]["checkpoint"]["inputs"]["base"]["digest"] == base.digest
    assert verify_lineage(world.artifacts, adapter.address) == []
    world.store.delete(f"{base.address}/manifest.json")
    assert verify_lineage(world.artifacts, adapter.address) == [f"{base.address} is no longer in the store"]
    assert not lineage(world.artifacts, adapter.address).inputs["base"].present
