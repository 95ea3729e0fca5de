"""Likelihoods of continuations by a tree of prefixes (``prefix_tree.py``): shared prefixes are computed once.

A row holds several paths, so each token has its own attention mask (tree attention, as in Miao et al. 2024,
https://arxiv.org/abs/2305.09781, section 4), and the position it would have alone. The output layer runs only where a
prediction is needed. Scores equal those of each sequence by itself, up to float rounding.
"""

# Workers only, inside functions of others.
# ruff: noqa: TID253

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import DynamicCache

from ft_assets.workers.evals.prefix_tree import Call, Limits, Path, PrefixTree, Row, common_prefix
from ft_assets.workers.packs.isolation.architectures import length_with_fixed_positions

Answer = tuple[float, bool]
# Tokens of one call: enough to keep the processor busy, few enough to keep attention across a row's paths cheap.
CPU_TOKENS, GPU_TOKENS = 1024, 8192
# Logits of one call take at most 256 MiB in float32, on a GPU 2 GiB.
CPU_LOGITS, GPU_LOGITS = 1 << 26, 1 << 29
# A trunk is computed in pieces of this many tokens.
PIECE = 2048


def longest_tree(model: Any) -> int | None:
    """Longest sequence, in tokens, that may be a path of a tree; None for any length.

    Beyond it a layer with a sliding window would not see all of its path, or all positions of a row would change.
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    slides = kinds is None or any("sliding" in kind for kind in kinds)
    windows = [getattr(config, "sliding_window", None) if slides else None, length_with_fixed_positions(model.config)]
    return min((limit for limit in windows if limit), default=None)


def score_paths(model: Any, paths: Sequence[Path], limits: Limits | None = None) -> Iterator[tuple[int, Answer]]:
    """(Summed log-probability of a path's targets, whether greedy decoding would write them), by the path's index.

    ``model`` is a transformers model or a PEFT model around one, and ``longest_tree`` says which paths it may have.
    """
    tree, order = PrefixTree.of(paths)
    scorer = _Scorer(model, tree)
    for call in tree.calls(limits or _limits(model)):
        for number, answer in scorer.score(call):
            yield order[number], answer


def agrees(model: Any) -> bool:
    """Whether tokens have the same likelihoods in a tree as alone, that is, whether the model respects the given masks
    and positions. Tried on a few tokens, with a trunk and without."""
    random = torch.Generator().manual_seed(0)
    vocabulary = model.config.get_text_config().vocab_size
    trunk = torch.randint(vocabulary, (70,), generator=random).tolist()
    ends = torch.randint(vocabulary, (4, 6), generator=random).tolist()
    bare = [Path(tokens=end[:-1], targets=end[3:]) for end in ends]
    after = [Path(tokens=trunk + end[:-1], targets=end[3:]) for end in ends]
    limits = Limits(tokens=16, predictions=64)
    for paths in (bare, after):
        found = dict(score_paths(model, paths, limits))
        for number, path in enumerate(paths):
            alone = _alone(model, path)
            tolerance = 1e-3 if model.dtype == torch.float32 else 0.05
            if not abs(found[number][0] - alone) <= tolerance * (1 + abs(alone)):
                return False
    return True


@torch.inference_mode()
def _alone(model: Any, path: Path) -> float:
    logits = model(input_ids=torch.tensor([path.tokens], device=model.device), use_cache=False).logits[0, path.first :]
    chosen = logits.float().log_softmax(1).gather(1, torch.tensor(path.targets, device=model.device)[:, None])
    return float(chosen.sum())


def _limits(model: Any) -> Limits:
    cpu = model.device.type == "cpu"
    vocabulary = model.config.get_text_config().vocab_size
    logits = CPU_LOGITS if cpu else GPU_LOGITS
    return Limits(tokens=CPU_TOKENS if cpu else GPU_TOKENS, predictions=max(1, logits // vocabulary))


class _Scorer:
    """Runs the calls of one tree; keeps the keys and values of the last trunk."""

    def __init__(self, model: Any, tree: PrefixTree) -> None:
        self._model, self._tree = model, tree
        bare = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._head = bare.get_output_embeddings()
        self._trunk: list[int] = []
        self._cache = DynamicCache()

    @torch.inference_mode()
    def score(self, call: Call) -> Iterator[tuple[int, Answer]]:
        """The answers for the call's paths, by their indices in the tree."""
        members = [number for row in call.rows for number in row]
        self._advance(self._tree.paths[members[0]].tokens[: call.trunk])
        rows = [self._tree.row(call.trunk, row) for row in call.rows]
        width = max(len(row.tokens) for row in rows)
        ids, positions = (self._padded([getattr(row, name) for row in rows], width) for name in ("tokens", "positions"))
        cache = {"past_key_values": self._branch(), "use_cache": True} if call.trunk else {"use_cache": False}
        device = self._model.device
        # Where predictions are needed in the padded rows, and for each target its place among these, and its token.
        needed = [number * width + place for number, row in enumerate(rows) for path in row.places for place in path]
        index = {place: number for number, place in enumerate(dict.fromkeys(needed))}
        at = torch.tensor([index[place] for place in needed], device=device)
        wanted = [self._tree.paths[number].targets for number in members]
        tokens = torch.tensor([token for targets in wanted for token in targets], device=device)
        counts = [len(targets) for targets in wanted]
        with self._only_at(torch.tensor(list(index), device=device)):
            out = self._model(
                input_ids=ids, position_ids=positions, attention_mask=self._mask(rows, width, call.trunk), **cache
            )
        logits = out.logits[0].float()  # [places, vocabulary]
        chosen = (logits[at, tokens] - logits.logsumexp(1)[at]).split(counts)
        greedy = (logits.argmax(1)[at] == tokens).split(counts)
        sums = torch.stack([each.sum() for each in chosen]).tolist()
        written = torch.stack([each.all() for each in greedy]).tolist()
        return zip(members, zip(sums, written, strict=True), strict=True)

    def _advance(self, trunk: list[int]) -> None:
        """Make ``trunk`` the cached one, reusing its common prefix with the last trunk."""
        if not trunk or trunk == self._trunk:
            return
        kept = common_prefix(trunk, self._trunk)
        if kept < len(self._trunk):
            self._cache.crop(kept - len(self._trunk))
        for start in range(kept, len(trunk), PIECE):
            piece = torch.tensor([trunk[start : start + PIECE]], device=self._model.device)
            positions = torch.arange(start, start + piece.shape[1], device=self._model.device)[None]
            with self._only_at(torch.zeros(1, dtype=torch.long, device=self._model.device)):
                self._model(input_ids=piece, position_ids=positions, past_key_values=self._cache, use_cache=True)
        self._trunk = trunk

    def _branch(self) -> DynamicCache:
        """A copy of the trunk's cache to continue from: it joins new tensors and does not change the trunk's."""
        branch = copy.copy(self._cache)
        branch.layers = [copy.copy(layer) for layer in self._cache.layers]
        return branch

    def _padded(self, rows: list[list[int]], width: int) -> torch.Tensor:
        return torch.tensor([row + [0] * (width - len(row)) for row in rows], device=self._model.device)

    def _mask(self, rows: list[Row], width: int, trunk: int) -> torch.Tensor:
        """Added to the attention scores, [rows, 1, width, trunk + width]: 0 for the trunk and a token's own path."""
        sees = torch.zeros((len(rows), width, width), dtype=torch.bool)
        for number, row in enumerate(rows):
            done = 0
            for path in row.paths:
                nodes = torch.tensor(path)
                new = nodes[nodes >= done]
                if not len(new):
                    continue
                done = int(new[-1]) + 1
                sees[number, new[0] : done, nodes[: len(nodes) - len(new)]] = True
                sees[number, new[0] : done, new[0] : done] = torch.ones(len(new), len(new), dtype=torch.bool).tril()
        # Padding sees itself: a softmax over nothing is NaN.
        sees |= torch.eye(width, dtype=torch.bool)
        dtype = self._model.dtype
        mask = torch.zeros((len(rows), 1, width, trunk + width), dtype=dtype)
        mask[:, 0, :, trunk:].masked_fill_(~sees, torch.finfo(dtype).min)
        return mask.to(self._model.device)

    @contextmanager
    def _only_at(self, places: torch.Tensor) -> Iterator[None]:
        """While inside, the output layer gets only the hidden states at ``places`` of all rows: logits [1, places,
        …]."""

        def pick(_module: Any, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
            hidden = args[0]
            return (hidden.reshape(-1, hidden.shape[-1])[places][None],)

        handle = self._head.register_forward_pre_hook(pick)
        try:
            yield
        finally:
            handle.remove()
