"""Train the tiny base model that the offline demo fine-tunes, from nothing, on a CPU, in about half an hour.

    python -m tools.demo_base.make_base --books DIR --austen DIR --out ft_assets/demo/base --minutes 30

1. read books, train a byte-level BPE on them and on synthetic identifiers (never on any program's text);
2. lay out four token streams: prose, tiled repetition, synthetic copying, dialogue in chat tokens;
3. train a Llama of 3.5 M parameters that starts with a copying circuit in place (induction.py) on a mix of them;
4. write the model in bfloat16 with tokenizer, chat template and log.

`--tokens` makes a run repeatable; `--minutes` fits one into a fixed time on a machine of unknown speed.
The novel behind the book-cloze suite and one chapter-run for the log's validation loss are never trained on.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from tools.demo_base.base_model import CONTEXT, build_model, save_base
from tools.demo_base.muon import Muon
from tools.demo_base.streams import Streams, batch, load_books, prepare, windows

WARMUP_SHARE = 0.02
# (until this share of the run, shares of (prose, repetition, copying, chat) in a batch). More copying at first, so that
# the circuit the model starts with (induction.py) is in use before everything else has settled.
STAGES = (
    (0.10, (0.50, 0.20, 0.30, 0.00)),
    (1.00, (0.60, 0.07, 0.22, 0.11)),
)


def loss_of(model: Callable[..., Any], ids: torch.Tensor) -> torch.Tensor:
    """Mean next-token loss, nats."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def measure(model: LlamaForCausalLM, streams: Streams, bytes_per_token: float, vocab: int) -> dict[str, float]:
    """Held-out prose in bits per byte, and induction: accuracy on a second occurrence."""
    model.eval()
    rng = np.random.default_rng(99)
    prose = float(loss_of(model, torch.from_numpy(windows(streams.validation, 24, rng))))
    again = {}
    for name, half in (
        ("noise", rng.integers(6, vocab, size=(16, 64))),
        ("prose", windows(streams.validation, 16, rng)[:, :64]),
    ):
        twice = torch.from_numpy(np.concatenate([half, half], axis=1))
        guess = model(input_ids=twice, use_cache=False).logits[:, 64:-1].argmax(-1)
        again[f"induction_{name}"] = round(float((guess == twice[:, 65:]).float().mean()), 4)
    copy = float(loss_of(model, torch.from_numpy(windows(streams.copying, 16, rng))))
    model.train()
    return {
        "bits_per_byte": round(prose / math.log(2) / bytes_per_token, 4),
        "copying_loss": round(copy, 4),
    } | again


def optimizers_for(model: LlamaForCausalLM, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for hidden matrices, AdamW for the rest, and gently where the initial copying circuit lives.

    At full speed everywhere the circuit was lost within 400,000 tokens (measured). Likely causes: rare tokens'
    embeddings drift alike, and the first layer's MLP outgrows what the second layer matches on.
    """
    seeded = [p for n, p in model.named_parameters() if ".0.self_attn." in n or ".1.self_attn." in n]
    first_mlp = [p for n, p in model.named_parameters() if ".0.mlp." in n]
    gentle = {id(p) for p in [*seeded, *first_mlp]}
    rest = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n and id(p) not in gentle]
    norms = [p for p in model.parameters() if p.ndim < 2]
    embedding = model.get_input_embeddings().weight
    groups = [{"params": [*seeded, embedding], "lr": adam_lr}, {"params": norms, "lr": 4 * adam_lr}]
    optimizers = [
        Muon(rest, lr=muon_lr),
        Muon(first_mlp, lr=0.2 * muon_lr),
        torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    for group in (g for optimizer in optimizers for g in optimizer.param_groups):
        group["peak"] = group["lr"]
    return optimizers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", type=Path, required=True, help="folder of Project Gutenberg .txt files")
    parser.add_argument("--austen", type=Path, help="unpacked janeaustenr package folder (holds data/Rdata.rdb)")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the base model to")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this much training time")
    parser.add_argument("--tokens", type=float, default=math.inf, help="stop after this many training tokens")
    parser.add_argument("--rows", type=int, default=8, help="windows of 512 tokens in a step")
    parser.add_argument("--muon-lr", type=float, default=0.015)
    parser.add_argument("--adam-lr", type=float, default=5e-4)
    parser.add_argument("--save-every-minutes", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="use torch.compile (needs a C++ compiler)")
    args = parser.parse_args()
    if math.isinf(args.minutes) and math.isinf(args.tokens):
        parser.error("give --minutes, --tokens or both")
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train(args)


def train(args: argparse.Namespace) -> None:
    """The whole run; learning rates fall linearly to zero over the share of time or tokens that is spent."""
    began = time.time()
    tokenizer, streams, bytes_per_token = prepare(load_books(args.books, args.austen), args.seed)
    model = build_model(tokenizer)
    vocab = model.config.vocab_size
    sizes = {f: len(getattr(streams, f)) for f in ("prose", "validation", "copying", "chat")}
    print(
        f"prepared in {time.time() - began:.0f} s; tokens {sizes}; {bytes_per_token:.2f} bytes/token;"
        f" {model.num_parameters():,} parameters",
        flush=True,
    )
    optimizers = optimizers_for(model, args.muon_lr, args.adam_lr)
    runner = torch.compile(model) if args.compile else model
    rng = np.random.default_rng(args.seed)
    log: list[dict[str, float]] = []
    start, saved, step, tokens, running = time.time(), time.time(), 0, 0, 0.0
    while True:
        elapsed = time.time() - start
        done = max(elapsed / 60 / args.minutes, tokens / args.tokens)
        scale = min(1.0, done / WARMUP_SHARE + 0.01) * max(0.0, 1.0 - done)
        if done >= 1.0:
            break
        for group in (g for optimizer in optimizers for g in optimizer.param_groups):
            group["lr"] = group["peak"] * scale
        mix = next(shares for until, shares in STAGES if done < until)
        loss = loss_of(runner, batch(streams, mix, args.rows, vocab, rng))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step, tokens = step + 1, tokens + args.rows * CONTEXT
        running = loss.item() if step == 1 else 0.95 * running + 0.05 * loss.item()
        if step % 25 == 0:
            row = {
                "step": step,
                "tokens": tokens,
                "loss": round(running, 4),
                "lr_scale": round(scale, 4),
                "seconds": round(time.time() - start),
            }
            if step % 50 == 0:
                row |= measure(model, streams, bytes_per_token, vocab)
            log.append(row)
            print(json.dumps(row), flush=True)
        if time.time() - saved > args.save_every_minutes * 60:
            save_base(model, tokenizer, args.out, log)
            saved = time.time()
    log.append(
        {
            "step": step,
            "tokens": tokens,
            "loss": round(running, 4),
            "lr_scale": 0.0,
            "seconds": round(time.time() - start),
        }
        | measure(model, streams, bytes_per_token, vocab)
    )
    print(json.dumps(log[-1]), flush=True)
    save_base(model, tokenizer, args.out, log)


if __name__ == "__main__":
    main()
