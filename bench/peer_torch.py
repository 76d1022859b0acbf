"""PyTorch's side of bench/peer: reads one benchmark's name a line from standard input, answers with milliseconds.

  attention/{fused,composed}/{fwd,fwd_bwd}/BxHxTxD     causal, f32, q, k and v require gradients
  matmul/f32/MxNxK                                      a [M, K] times b [K, N]
  train_step/{nano,baby,gpt2s,gpt2}                     forward, backward and AdamW of a GPT with a tied head

The answer is the median of repeated runs, and for a training step also the peak memory of the process in MB. The same work as
the benchmark of that name does here: same shapes, same dtypes, gradients of all inputs.
"""
import os
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

GPTS = {  # vocabulary, context, blocks, heads, width, batch
    "nano": (65, 64, 4, 4, 128, 12),
    "baby": (65, 256, 6, 6, 384, 16),
    "gpt2s": (50257, 64, 12, 12, 768, 4),
    "gpt2": (50257, 1024, 12, 12, 768, 1),
}


def sizes(text):
    return [int(size) for size in text.split("x")]


def attention(kind, direction, shape):
    batch, heads, length, width = sizes(shape)
    q, k, v = (torch.randn(batch, heads, length, width, requires_grad=direction == "fwd_bwd") for _ in range(3))
    up = torch.randn(batch, heads, length, width)
    if kind == "composed":
        future = torch.ones(length, length, dtype=torch.bool).triu(1)

    def forward():
        if kind == "fused":
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = torch.matmul(q, k.transpose(-1, -2)) * width**-0.5
        return torch.matmul(torch.softmax(scores.masked_fill(future, float("-inf")), -1), v)

    def run():
        y = forward()
        if direction == "fwd_bwd":
            torch.autograd.grad(y, (q, k, v), up)

    return run


def matmul(dtype, shape):
    m, n, k = sizes(shape)
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    a, b = torch.randn(m, k, dtype=kind), torch.randn(k, n, dtype=kind)
    return lambda: torch.matmul(a, b)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        heads = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = map(heads, self.inputs(self.attention_norm(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.project(mixed)
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab, context, blocks, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return functional.linear(self.norm(self.blocks(x)), self.tokens.weight)


def train_step(name):
    vocab, context, blocks, heads, width, batch = GPTS[name]
    model = Gpt(vocab, context, blocks, heads, width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids, targets = (torch.randint(vocab, (batch, context)) for _ in range(2))

    def run():
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()

    return run


def median(run, seconds, least):
    for _ in range(2):
        run()
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e3


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    makers = {"attention": attention, "matmul": matmul, "train_step": train_step}
    made = {}
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        name = line.strip()
        kind, *details = name.split("/")
        if name not in made:
            made = {name: makers[kind](*details)}  # one at a time: models are large
        milliseconds = median(made[name], 0.3, 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{milliseconds:.6f} {peak:.0f}", flush=True)


main()
