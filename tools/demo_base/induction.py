"""Start a Llama with a copying circuit already in place ("A B … A" → "B"), instead of waiting for it to form.

Induction heads appear late in training, after far more tokens than an hour on two cores gives (stages of
about a million tokens of pure repetition left the score at 0). What they compute is known
(Olsson et al., 2022, "In-context learning and induction heads"), so two layers' attention is *initialised* to it:

* layer 0, a previous-token head: queries and keys are constants whose rotary phases differ by one position, so
  every position attends to its predecessor and writes part of that token's embedding into the residual stream;
* layer 1, heads whose query is the current token and whose key is what the previous-token head wrote, on the
  slow rotary pairs only (their phase hardly moves within the context); the value copies the token found.

Nothing is frozen: training reshapes all of it. The constants come from a direction shared by all embeddings,
which a tied output layer turns into the same number for every token, so it changes no prediction.
"""

from typing import Any

import torch
from transformers import LlamaForCausalLM

EMBEDDING_STD = 0.1
FAST_PAIRS = 8
SLOW_FROM = 13
PREVIOUS_SHARPNESS = 7.0
WRITE = 0.5
MATCH = 2.2
COPY = 0.9
QUIET = 0.3


@torch.no_grad()
def seed_copying(model: LlamaForCausalLM) -> None:
    """Overwrite the embeddings and the attention of layers 0 and 1; draws from torch's global generator."""
    config: Any = model.config  # its fields are typed as optional, and a Llama has them all
    width, size = config.hidden_size, config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    pairs = size // 2
    theta = config.rope_parameters["rope_theta"] ** (-torch.arange(pairs) / pairs)
    basis = torch.linalg.qr(torch.randn(width, width)).Q.T  # orthonormal rows: one, 64 read, 64 write, rest copied
    shared, read, write = basis[0], basis[1 : 1 + size], basis[1 + size : 1 + 2 * size]
    embedding: Any = model.get_input_embeddings().weight
    embedding.normal_(std=EMBEDDING_STD)
    embedding.add_(shared * EMBEDDING_STD * width**0.5)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.mul_(QUIET)
        layer.mlp.down_proj.weight.mul_(QUIET)

    first = model.model.layers[0].self_attn
    constant = shared / (width / 2) ** 0.5  # the shared direction carries half of a normalised state's square
    fast = torch.arange(FAST_PAIRS)
    first.q_proj.weight[:size] = 0.0
    first.k_proj.weight[:size] = 0.0
    first.q_proj.weight[fast] = PREVIOUS_SHARPNESS * constant
    first.k_proj.weight[fast] = PREVIOUS_SHARPNESS * theta[fast].cos()[:, None] * constant
    first.k_proj.weight[fast + pairs] = PREVIOUS_SHARPNESS * theta[fast].sin()[:, None] * constant
    first.v_proj.weight[:size] = WRITE * read
    first.o_proj.weight[:, :size] = WRITE * write.T

    second = model.model.layers[1].self_attn
    slow = torch.cat([torch.arange(SLOW_FROM, pairs), torch.arange(SLOW_FROM, pairs) + pairs])
    for head in range(config.num_key_value_heads):
        query, key = head * group * size, head * size
        second.q_proj.weight[query : query + size] = 0.0
        second.k_proj.weight[key : key + size] = 0.0
        second.q_proj.weight[query + slow] = MATCH * read[slow]
        second.k_proj.weight[key + slow] = MATCH * write[slow]
        copied = basis[width - size * (head + 1) : width - size * head]
        second.v_proj.weight[key : key + size] = COPY * copied
        second.o_proj.weight[:, query : query + size] = COPY * copied.T
