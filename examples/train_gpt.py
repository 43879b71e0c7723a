#!/usr/bin/env python3
"""Trains a small GPT on random tokens: an ordinary PyTorch script that knows nothing of cuheap.

    python train_gpt.py                          4 layers of 256, 6 steps of AdamW
    python train_gpt.py --steps 20 --layers 8
    python train_gpt.py --oom                    afterwards asks for more than there is, and recovers

Prints what PyTorch itself says about its memory after every step, and its own statistics as one line of JSON at the end. Everything
printed depends on the script and the device only, not on what the kernels computed.
"""
import argparse
import gc
import json
import math

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.view(split).transpose(1, 2) for part in self.project_in(x).split(width, dim=2))
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = functional.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1)
        return self.project_out((weights @ value).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, layers, width, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(model, arguments, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    generator = torch.Generator().manual_seed(1)
    for step in range(1, arguments.steps + 1):
        ids = torch.randint(arguments.vocabulary, (arguments.batch, arguments.length + 1), generator=generator).to(device)
        logits = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del logits, loss
        torch.cuda.synchronize()
        report(f"step {step}")


def run_out_of_memory(device):
    """Takes ever more until there is no more, then goes on with less: what a service does with a request that is too large."""
    held = []
    piece = torch.cuda.get_device_properties(device).total_memory // 8
    try:
        while True:
            held.append(torch.empty(piece, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError:
        print(f"out of memory after {len(held)} pieces of an eighth of the device")
    held.clear()
    torch.cuda.empty_cache()
    report("recovered")


def report(when):
    print(f"{when}: allocated {torch.cuda.memory_allocated()} peak {torch.cuda.max_memory_allocated()} "
          f"reserved {torch.cuda.memory_reserved()}")


def statistics():
    stats = torch.cuda.memory_stats()
    names = {"peak": "allocated_bytes.all.peak", "end": "allocated_bytes.all.current", "allocations": "allocation.all.allocated",
             "frees": "allocation.all.freed", "ooms": "num_ooms", "retries": "num_alloc_retries",
             "reserved_peak": "reserved_bytes.all.peak"}
    return {name: stats[key] for name, key in names.items()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in dict(steps=6, layers=4, width=256, heads=8, batch=8, length=128, vocabulary=8192).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--oom", action="store_true", help="run out of memory after training, and recover")
    return parser.parse_args()


def run(arguments, device):
    model = GPT(arguments.vocabulary, arguments.length, arguments.layers, arguments.width, arguments.heads).to(device)
    print(f"parameters {sum(p.numel() for p in model.parameters())}")
    report("model")
    train(model, arguments, device)
    if arguments.oom:
        run_out_of_memory(device)


def main():
    arguments = parse()
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    print(f"device {torch.cuda.get_device_name(device)}")
    run(arguments, device)
    gc.collect()  # so that the statistics count every free of a tensor, not only those until here
    print("statistics " + json.dumps(statistics()))


if __name__ == "__main__":
    main()
