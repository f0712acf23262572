"""Trains a small Llama on text: transformers alone with two seeds, Liger-Kernel, and ligerdsl.

    python bench/convergence.py --out convergence-DATE.json
    python bench/e2e_plot.py convergence-DATE.json --out docs/training

It records the loss of every step and of held-out text. Tokens are bytes of this repository's
documents and sources. Contenders with the same seed start from the same weights and see the same
text. A second seed changes both, to show transformers' own spread.

The optimiser is AdamW. --precision autocast has f32 weights, on a GPU with bf16 autocast.
--precision bf16 has bf16 weights with f32 copies in the optimiser, and every layer recomputed. Then
ligerdsl runs a layer as one node of autograd.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys

from e2e_llama import layers_as_one_node, make_model, versions

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = (("hf", 0), ("hf", 1), ("liger", 0), ("ligerdsl", 0))
SIZES = {"small": dict(vocab_size=256, hidden_size=512, intermediate_size=1408, num_hidden_layers=6,
                       num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512,
                       tie_word_embeddings=True),
         "tiny": dict(vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                      tie_word_embeddings=True)}


def text_of(folder):
    import torch
    files = sorted(path for pattern in ("docs/*.md", "lib/**/*.md", "kernels/*.cpp", "bench/*.py",
                                        "*.md") for path in folder.glob(pattern))
    whole = torch.frombuffer(bytearray(b"\n".join(path.read_bytes() for path in files)),
                             dtype=torch.uint8).long()
    held_out = len(whole) // 10
    return whole[:-held_out], whole[-held_out:]


def rows_of(text, count, length, generator):
    import torch
    starts = torch.randint(0, len(text) - length, (count,), generator=generator)
    return torch.stack([text[start:start + length] for start in starts])


class Masters:
    """Parameters that the optimiser updates: the model's own, or f32 copies of 16-bit ones."""

    def __init__(self, model):
        import torch
        self.model = list(model.parameters())
        self.all = [parameter if parameter.dtype == torch.float32 else parameter.detach().float()
                    for parameter in self.model]
        self.pairs = [(master, parameter) for master, parameter in zip(self.all, self.model)
                      if master is not parameter]

    def take_gradients(self):
        for master, parameter in self.pairs:
            master.grad, parameter.grad = parameter.grad.float(), None

    def give_values(self):
        for master, parameter in self.pairs:
            parameter.data.copy_(master)


def train(options):
    import torch
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    low = options.precision == "bf16"
    model = make_model(SIZES[options.size], options.contender, device,
                       torch.bfloat16 if low else torch.float32, seed=options.seed,
                       checkpointing=low)
    masters = Masters(model)
    optimiser = torch.optim.AdamW(masters.all, lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / 20))
    text, held_out = text_of(options.text)
    generator, length = (torch.Generator().manual_seed(options.seed),
                         min(256, SIZES[options.size]["max_position_embeddings"]))
    losses = []

    def loss_of(ids):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda" and not low):
            return model(input_ids=ids, labels=ids).loss

    for _ in range(options.steps):
        loss = loss_of(rows_of(text, options.batch, length, generator).to(device))
        loss.backward()
        masters.take_gradients()
        torch.nn.utils.clip_grad_norm_(masters.all, 1.0)
        optimiser.step()
        masters.give_values()
        schedule.step()
        optimiser.zero_grad()
        losses.append(loss.detach().float())
    nodes = layers_as_one_node(options.contender)
    with torch.no_grad():
        same = torch.Generator().manual_seed(12345)
        last = [float(loss_of(rows_of(held_out, options.batch, length, same).to(device)))
                for _ in range(8)]
    print("RUN " + json.dumps({"contender": options.contender,
                               "seed": options.seed,
                               "layers_as_one_node": nodes,
                               "losses": [round(float(loss), 5) for loss in losses],
                               "held_out": round(sum(last) / len(last), 5),
                               "versions": versions(options.device)}),
          flush=True)


def verdict(runs):
    """Returns the spread of final losses between two seeds, and each contender's distance from
    transformers."""
    found = {(run["contender"], run["seed"]): run for run in runs if "held_out" in run}
    if not {("hf", 0), ("hf", 1)} <= found.keys():
        return {}
    base = found["hf", 0]
    difference = lambda run: {"held_out": round(abs(run["held_out"] - base["held_out"]), 5),
                              "last_20_steps": round(
                                  abs(sum(run["losses"][-20:]) - sum(base["losses"][-20:])) / min(
                                      20, len(base["losses"])),
                                  5)}
    return {"two seeds of hf": difference(found["hf", 1])} | {
        name: difference(found[name, 0]) for name in ("liger", "ligerdsl") if (name, 0) in found}


def process(options, contender, seed):
    environment = {name: value for name, value in os.environ.items() if name != "LIGER_KERNEL_IMPL"}
    given = {"size": options.size, "device": options.device, "precision": options.precision,
             "steps": options.steps, "batch": options.batch, "lr": options.lr, "text": options.text,
             "contender": contender, "seed": seed}
    done = subprocess.run(
        [sys.executable, __file__,
         *(str(each) for name, value in given.items() for each in (f"--{name}", value))],
        env=environment, capture_output=True, text=True)
    run = next((
        json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("RUN ")), None)
    if run is None:
        sys.stderr.write(done.stderr[-3000:])
        run = {"contender": contender,
               "seed": seed,
               "failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:300]}
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", choices=("autocast", "bf16"), default="autocast")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at the same time")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT,
                        help="folder whose documents and sources are the training text")
    parser.add_argument("--contenders", type=lambda text: text.split(","),
                        default=["hf", "liger", "ligerdsl"])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        return train(options)
    asked = [run for run in RUNS if run[0] in options.contenders]
    runs, found = [], {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for run in pool.map(lambda pair: process(options, *pair), asked):
            found |= run.pop("versions", {})
            runs.append(run)
            print({name: value for name, value in run.items() if name != "losses"}, flush=True)
            result = {"what": "losses of a small Llama that learns text",
                      "size": options.size,
                      "precision": options.precision,
                      "steps": options.steps,
                      "batch": options.batch,
                      "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                      **found,
                      "apart": verdict(runs),
                      "runs": runs}
            if options.out:
                options.out.write_text(json.dumps(result) + "\n")
    print(result["apart"])
    return 1 if any("failed" in run for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
