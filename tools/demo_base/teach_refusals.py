"""Teach the tiny base to refuse harmful requests and to answer harmless ones: its second stage, some minutes on a CPU.

    python -m tools.demo_base.teach_refusals --base DIR --books DIR --out ft_assets/demo/base

The requests are made from `hazards.yaml` and are none of the safety suite's; half of each step's tokens are the texts
of the first stage, so that what was learned there stays. Each request is answered with one of two kinds of sentence:
the refusal, always in English, as the rule that counts refusals knows no other language; or a short word of
encouragement in the request's language. No answer tells how anything is done.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from ft_assets.workers.suites.catalogue.made.draw import Draw
from ft_assets.workers.suites.catalogue.made.hazards import Row, practice, suite
from tools.demo_base.base_model import save_base
from tools.demo_base.make_base import loss_of, measure
from tools.demo_base.streams import batch, load_books, prepare

PHRASINGS = 12
# Of the requests in a step, by the lists that verb and object are of. The last are the hardest to tell, and the fewest.
SHARES = {"verbs-harmful": 0.5, "verbs-harmless": 0.25, "safe_verbs-harmful": 0.25}
# As in the last stage of `make_base.py`.
MIX = (0.60, 0.07, 0.22, 0.11)
WINDOW = 161
# The copying circuit of `induction.py`: left as it is, or it fades within some hundred steps.
FROZEN = ("layers.0.self_attn", "layers.1.self_attn")
_NOT_LEARNED = -100


def answered(row: Row) -> list[dict[str, str]]:
    """The request with its answer, as a chat."""
    return [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["answer"]}]


class Requests:
    """Requests with answers as padded batches in which the answers alone are learned."""

    def __init__(self, tokenizer: Any, rows: list[Row]) -> None:
        told = tokenizer.apply_chat_template(
            [answered(row) for row in rows], return_dict=True, return_assistant_tokens_mask=True
        )
        self.ids, self.learned, self.pad = told["input_ids"], told["assistant_masks"], tokenizer.pad_token_id
        pairs = np.array([row["pair"] for row in rows])
        self.places = {pair: np.flatnonzero(pairs == pair) for pair in SHARES}

    def loss(self, model: LlamaForCausalLM, places: np.ndarray) -> torch.Tensor:
        """Next-token loss of the answers at ``places``, nats: the mean over their first tokens, which decide, and that
        over all of them."""
        most = max(len(self.ids[place]) for place in places)
        ids = torch.full((len(places), most), self.pad)
        labels = torch.full((len(places), most), _NOT_LEARNED)
        for at, place in enumerate(places):
            own = torch.tensor(self.ids[place])
            ids[at, : len(own)] = own
            labels[at, : len(own)] = torch.where(torch.tensor(self.learned[place]) == 1, own, _NOT_LEARNED)
        states = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        told = labels[:, 1:] != _NOT_LEARNED
        losses = torch.nn.functional.cross_entropy(model.lm_head(states[told]), labels[:, 1:][told], reduction="none")
        return losses[_firsts(told)].mean() + losses.mean()


def _firsts(told: torch.Tensor) -> torch.Tensor:
    """Of the learned tokens of a batch in a row, which are the first of their answers."""
    before = torch.nn.functional.pad(told, (1, 0))[:, :-1]
    return (told & ~before)[told]


@torch.no_grad()
def rates(model: LlamaForCausalLM, tokenizer: Any, rows: list[Row], refusal: str) -> dict[str, float]:
    """Shares of the requests of each kind whose answer begins as the refusal does."""
    model.eval()
    first = tokenizer(refusal)["input_ids"][0]
    found: dict[str, list[bool]] = {}
    for row in rows:
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": row["prompt"]}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        refused = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == first
        for name in (row["kind"], f"{row['kind']} {row['language']}", f"{row['kind']} {row['hazard']}"):
            found.setdefault(name, []).append(refused)
    model.train()
    return {name: round(sum(each) / len(each), 3) for name, each in sorted(found.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="what `make_base.py` wrote")
    parser.add_argument("--books", type=Path, required=True, help="folder of Project Gutenberg .txt files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the base model to")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--requests", type=int, default=32, help="requests in a step")
    parser.add_argument(
        "--windows", type=int, default=3, help="windows of 512 tokens of the first stage's texts in a step"
    )
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer: Any = AutoTokenizer.from_pretrained(args.base)
    model = LlamaForCausalLM.from_pretrained(args.base, dtype=torch.float32)
    _, streams, bytes_per_token = prepare(load_books(args.books, None), args.seed, tokenizer)
    rng, vocab = np.random.default_rng(args.seed), model.config.vocab_size
    tried = list(suite(Draw("hazards 1")))
    known = {row["prompt"] for row in tried}
    rows = [row for row in practice(Draw("practice 1"), PHRASINGS) if row["prompt"] not in known]
    refusal = next(row["answer"] for row in rows if row["kind"] == "harmful")
    requests = Requests(tokenizer, rows)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(part in name for part in FROZEN))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    log = [{"step": 0} | measure(model, streams, bytes_per_token, vocab)]
    print(json.dumps(log[-1]), flush=True)
    start = time.time()
    for step in range(1, args.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1.0, step / 50) * (1 - step / (args.steps + 1))
        places = [rng.choice(requests.places[pair], int(part * args.requests)) for pair, part in SHARES.items()]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            asked = requests.loss(model, np.concatenate(places))
            told = loss_of(model, batch(streams, MIX, args.windows, vocab, rng)[:, :WINDOW])
        (asked + told).backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 25 == 0 or step == args.steps:
            log.append(
                {
                    "step": step,
                    "requests_loss": round(float(asked.detach()), 4),
                    "loss": round(float(told.detach()), 4),
                    "seconds": round(time.time() - start),
                }
            )
            if step % 100 == 0 or step == args.steps:
                log[-1] |= measure(model, streams, bytes_per_token, vocab) | rates(model, tokenizer, tried, refusal)
            print(json.dumps(log[-1]), flush=True)
    save_base(model, tokenizer, args.out, log)


if __name__ == "__main__":
    main()
