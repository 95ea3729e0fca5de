"""A GGUF file is the merged model in fewer bits: made by llama.cpp, and read alike by it and by the evaluation."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.workers.evals import gguf_weights
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.gguf_weights import GGUF
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports import gguf, gguf_quantiser, llama_cpp
from ft_assets.workers.exports.gguf import MODELFILE
from ft_assets.workers.exports.gguf_equality import MOST_KL, require_same_prompts, tokens_of
from ft_assets.workers.exports.llama_cpp import CONVERTER, QUANTISER, SERVER, LlamaCpp
from ft_assets.workers.exports.merged import merge_model
from ft_assets.workers.exports.quantized import quantize_model
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.environment import LLAMA_CPP
from ft_resources.errors import BadBase, CorruptArtifact, Misconfigured
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkResult
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.workers.evals.world import World
from tests.workers.exports.made import OWN_TEMPLATE, Made

pytestmark = pytest.mark.training
# In place of llama-server: answers with what it is sent.
ECHO_SERVER = """
import socketserver, sys
from http.server import BaseHTTPRequestHandler

class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, b"{}")
    def do_POST(self):
        self.answer(200, self.rfile.read(int(self.headers["Content-Length"])))
    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

socketserver.UnixStreamServer(sys.argv[sys.argv.index("--host") + 1], Echo).serve_forever()
"""
KINDS = [name for name in EXPORTS if name.startswith("gguf-")]
OfKind = Callable[[str], tuple[World, WorkRequest, WorkResult]]


def quantized(made: Made, name: str = "gguf-q8_0") -> WorkRequest:
    """The request of a format, with its merged model made."""
    world = made.world
    result = merge_model(world.context(made.request()))
    merged = world.publish("merged_model", result.folder, inputs={"adapter": made.adapter}, facts=result.facts)
    return made.request_of(EXPORTS[name], exported=merged)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def of_kind(tmp_path_factory: pytest.TempPathFactory) -> OfKind:
    """A format's request in a world of its own, and what was made of it, once."""

    @cache
    def made(name: str) -> tuple[World, WorkRequest, WorkResult]:
        folder = tmp_path_factory.mktemp(name)
        world = World(store=open_store(str(folder / "store"), create=True), folder=folder)
        request = quantized(Made.make(world), name)
        return world, request, quantize_model(world.context(request))

    return made


# The rules of q5_k_m are those of q4_k_m, with one more bit.
@pytest.mark.llama_cpp
@pytest.mark.parametrize("name", ["gguf-q8_0", "gguf-q4_k_m", pytest.param("gguf-q5_k_m", marks=pytest.mark.long)])
def test_llama_cpp_reads_the_file_as_it_is_evaluated(of_kind: OfKind, name: str) -> None:
    world, request, result = of_kind(name)
    found = result.facts
    assert (found["format"], found["architecture"], found["alike"]["places"]) == (name, "LlamaForCausalLM", 32)
    assert found["alike"]["kl"] < MOST_KL / 100 < found["changed"]["kl"] * 1e6
    files = files_of(result.folder)
    told = {"README.md", "LICENSE", "config.json", "generation_config.json", "chat_template.jinja"}
    assert set(files) == {GGUF, MODELFILE, *told}
    assert files["chat_template.jinja"].decode() == OWN_TEMPLATE
    assert f"quantised by llama.cpp as {request.params['kind']}" in files["README.md"].decode()
    loaded = load_model(result.folder, base_folder=world.folder / "base-float32", device="cpu").model
    assert {str(each.dtype) for each in loaded.parameters()} == {"torch.float32"}


@pytest.mark.llama_cpp
def test_its_bytes_are_the_same_each_time(of_kind: OfKind) -> None:
    world, request, result = of_kind("gguf-q4_k_m")
    assert files_of(quantize_model(world.context(request)).folder) == files_of(result.folder)


@pytest.mark.long
@pytest.mark.llama_cpp
def test_a_mixture_of_experts_is_read_by_llama_cpp_as_it_is_evaluated(world: World) -> None:
    made = Made.make(world, dtype="bfloat16", experts="qwen3_moe", target_modules=["q_proj", "o_proj"])
    found = quantize_model(world.context(quantized(made))).facts
    assert found["architecture"] == "Qwen3MoeForCausalLM"
    assert found["alike"]["kl"] < MOST_KL / 100
    # Its experts, which are most of it, are in 8 bits too.
    assert found["bytes"] < found["parameters"] * 1.5


@pytest.mark.long
@pytest.mark.llama_cpp
def test_one_whose_gguf_transformers_does_not_read_is_refused_by_name(world: World) -> None:
    made = Made.make(world, dtype="bfloat16", experts="mixtral", target_modules=["q_proj", "o_proj"])
    with pytest.raises(BadBase, match=r"cannot read GGUF of this architecture.*mixtral") as found:
        quantize_model(world.context(quantized(made)))
    assert "Export it as merged" in found.value.remedy


@pytest.mark.long
@pytest.mark.llama_cpp
def test_fewer_bits_change_more_and_take_less(world: World) -> None:
    made = Made.make(world, dtype="bfloat16")
    found = [quantize_model(world.context(quantized(made, name))).facts for name in KINDS]
    changes, sizes = [each["changed"]["kl"] for each in found], [each["bytes"] for each in found]
    assert changes[0] < min(changes[1:])
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.llama_cpp
def test_the_modelfile_has_the_template_of_training_in_ollamas_words(of_kind: OfKind) -> None:
    *_, result = of_kind("gguf-q8_0")
    assert (result.folder / MODELFILE).read_text().splitlines() == [
        f"FROM ./{GGUF}",
        'TEMPLATE """{{ if .System }}<|system|>{{ .System }}<|end|>{{ else }}{{ end }}{{ range .Messages }}'
        '{{ if eq .Role "user" }}<|user|>{{ .Content }}<|end|>{{ else if eq .Role "assistant" }}'
        '<|assistant|>{{ .Content }}<|end|>{{ end }}{{ end }}<|assistant|>"""',
        'PARAMETER stop "<|end|>"',
        "PARAMETER num_ctx 256",
    ]


@pytest.mark.long
@pytest.mark.llama_cpp
def test_a_file_whose_weights_are_others_than_those_evaluated_is_not_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the converter had lost the adapter: llama.cpp serves the base."""
    made = Made.make(world)
    request, convert = quantized(made), LlamaCpp.convert
    other = made.base.folder(world.folder / "other")
    quantise = LlamaCpp.quantise

    def swapped(tools: LlamaCpp, source: Path, target: Path, kind: str) -> None:
        quantise(tools, source, target, kind)
        wrong = source.with_name("wrong.gguf")
        convert(tools, other, wrong, dtype="f32", name="wrong", pre_tokenizer="gpt-2")
        served.append(wrong)

    served: list[Path] = []
    serve = LlamaCpp.serve
    monkeypatch.setattr(LlamaCpp, "quantise", swapped)
    monkeypatch.setattr(LlamaCpp, "serve", lambda tools, model, scratch: serve(tools, served[-1], scratch))
    with pytest.raises(BadBase, match="does not read the GGUF file as it is evaluated"):
        quantize_model(world.context(request))


@pytest.mark.long
@pytest.mark.llama_cpp
def test_a_template_that_the_file_does_not_have_is_found_by_the_prompts_tokens(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made.make(world)
    request, convert = quantized(made), LlamaCpp.convert

    def lost(tools: LlamaCpp, model: Path, target: Path, **more: str) -> None:
        copy = target.with_name("copy")
        copy.mkdir()
        for path in model.iterdir():
            text = path.read_bytes()
            (copy / path.name).write_bytes(text.replace(b"'<|assistant|>' -}}{%- endif", b"'' -}}{%- endif"))
        convert(tools, copy, target, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LlamaCpp, "convert", lost)
    with pytest.raises(BadBase, match=r"makes a conversation .* tokens, and training made it"):
        quantize_model(world.context(request))


@pytest.mark.llama_cpp
def test_a_first_token_that_template_and_engine_both_write_is_there_once(world: World) -> None:
    folder = make_fake_base(world.folder / "opened")
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    opened = {"add_bos_token": True, "chat_template": "{{ bos_token }}" + CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, **opened}))
    tools, asks = LlamaCpp.of_environment(), [{"role": "user", "content": "hi there"}]
    tools.convert(folder, world.folder / "model.gguf", dtype="f32", name="opened", pre_tokenizer="gpt-2")
    ids = ChatPrompts(folder, ChatTokenizer.load(folder), None).prompt(asks, "here")
    assert ids.count(1) == 1
    with tools.serve(world.folder / "model.gguf", world.folder) as server:
        require_same_prompts(server, [(asks, ids)])
        assert tokens_of(server, "") == [1], "the engine writes it before every prompt"
        assert "<|bos|>" not in gguf._modelfile(server, folder)


@pytest.mark.parametrize(
    ("name", "shape", "kind", "wanted"),
    [
        ("blk.0.attn_q.weight", (2048, 2048), "Q4_K_M", "Q4_K"),
        ("blk.0.attn_v.weight", (2048, 512), "Q4_K_M", "Q6_K"),
        ("blk.3.attn_v.weight", (2048, 512), "Q4_K_M", "Q4_K"),
        ("blk.15.ffn_down.weight", (8192, 2048), "Q5_K_M", "Q6_K"),
        ("blk.4.ffn_down_exps.weight", (8192, 2048, 8), "Q5_K_M", "Q6_K"),
        ("token_embd.weight", (2048, 32000), "Q4_K_M", "Q6_K"),
        ("token_embd.weight", (2048, 32000), "Q8_0", "Q8_0"),
        # No blocks of 256, or not even of 32.
        ("blk.0.attn_q.weight", (896, 896), "Q4_K_M", "Q5_0"),
        ("blk.0.attn_q.weight", (48, 48), "Q8_0", "F16"),
        ("blk.0.attn_norm.weight", (2048,), "Q4_K_M", ""),
        ("blk.0.ffn_gate_inp.weight", (2048, 8), "Q4_K_M", ""),
    ],
)
def test_which_tensors_keep_more_bits_is_as_llama_cpp_has_it(
    name: str, shape: tuple[int, ...], kind: str, wanted: str
) -> None:
    assert gguf_quantiser._type_of(name, shape, kind, 16, tied=True) == wanted


def test_without_llama_cpp_a_worker_says_what_is_missing_and_where(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(LLAMA_CPP, raising=False)
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"this worker has no llama\.cpp, which makes GGUF") as found:
        quantize_model(world.context(quantized(Made.make(world))))
    assert "llama-cpp.md" in found.value.remedy
    (tmp_path / CONVERTER).touch()
    monkeypatch.setenv(LLAMA_CPP, str(tmp_path))
    with pytest.raises(Misconfigured, match=f"there is no {QUANTISER}, llama-server in {tmp_path}"):
        LlamaCpp.of_environment()


def test_without_the_reader_nothing_is_converted(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gguf.LlamaCpp, "of_environment", lambda: LlamaCpp(folder=tmp_path))
    monkeypatch.setattr(gguf_weights, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match="the package gguf is not installed"):
        quantize_model(world.context(quantized(Made.make(world))))


def test_a_tool_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of another kind in llama.cpp's place: what they say reaches the person, and no key reaches them."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    program = tmp_path / QUANTISER
    program.write_text('#!/bin/sh\necho "unknown type $3; key: $AWS_SECRET_ACCESS_KEY." >&2\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(BadBase, match=r"could not be quantised; llama\.cpp said:\nunknown type Q9; key: \."):
        LlamaCpp(folder=tmp_path).quantise(tmp_path / "one", tmp_path / "two", "Q9")


def test_a_server_answers_over_a_socket_however_long_the_path_of_the_scratch_folder_is(tmp_path: Path) -> None:
    program = tmp_path / SERVER
    program.write_text(f"#!{sys.executable}\n{ECHO_SERVER}")
    program.chmod(0o755)
    scratch = tmp_path / ("long" * 30)
    scratch.mkdir()
    with LlamaCpp(folder=tmp_path).serve(tmp_path / "model.gguf", scratch) as server:
        assert server.ask("/tokenize", {"content": "a"}) == {"content": "a"}
        with pytest.raises(OSError, match="llama-server answered 404 at /nothing"):
            server.ask("/nothing")


def test_a_merged_model_that_changed_since_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gguf.LlamaCpp, "of_environment", lambda: LlamaCpp(folder=tmp_path))
    request = quantized(Made.make(world))
    stale = request.inputs["exported"].model_copy(update={"digest": "0" * 64})
    with pytest.raises(CorruptArtifact, match="has changed since"):
        quantize_model(world.context(replace(request, inputs={**request.inputs, "exported": stale})))
