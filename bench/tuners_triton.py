"""Searches and times Triton's kernels for tuners.py, on one GPU. Each call is a process.

    tuners_triton.py search MODE OPERATION ROWS COLUMNS --configurations 48 --samples 30
    tuners_triton.py time OPERATION ROWS COLUMNS --library libligerdsl.so \\
        --configs '{"triton": "ROWS=1 num_warps=8 num_stages=1"}'
    tuners_triton.py versions

Prints one JSON object.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys
import time


def fields():
    """Returns all configurations: rows per program, warps, stages."""
    return list(itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2)))


def chosen(count):
    """Returns `count` evenly spread configurations, or all."""
    every = fields()
    count = min(count, len(every))
    return [every[i * len(every) // count] for i in range(count)]


def config_text(rows, warps, stages):
    return f"ROWS={rows} num_warps={warps} num_stages={stages}"


def config_numbers(text):
    return tuple(int(word.split("=")[1]) for word in text.split())


def tensors(n, h):
    import torch
    return [torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
            for shape in ((n, h), (h,), (n, h))]  # x, weight, y


def fixed_samples(count):
    """Returns a benchmark for triton.autotune with `count` timed launches, each with a cold L2.

    triton.testing.do_bench flushes the same way.
    """
    import torch
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def bench(kernel_call, quantiles):
        kernel_call()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for begin, end in events:
            flush.zero_()
            begin.record()
            kernel_call()
            end.record()
        torch.cuda.synchronize()
        times = torch.tensor([begin.elapsed_time(end) for begin, end in events])
        return torch.quantile(times, torch.tensor(quantiles)).tolist()

    return bench


def compile_all(jit, arguments, columns, configs):
    """Compiles every configuration, one thread per core, with Triton's own function if it has one.
    Returns a description of the method."""
    def warm(config):
        try:
            jit.warmup(*arguments, H=columns, ROWS=config.kwargs["ROWS"], grid=(1,),
                       num_warps=config.num_warps, num_stages=config.num_stages)
        except Exception as error:  # the autotuner gets the same error and skips the configuration
            print(f"{config}: {error}", file=sys.stderr)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            from triton.runtime._async_compile import AsyncCompileMode
        except ImportError:
            list(pool.map(warm, configs))
            return "threads"
        try:
            with AsyncCompileMode(pool):
                for config in configs:
                    warm(config)
        except Exception as error:  # a configuration that does not compile raises at the end
            print(error, file=sys.stderr)
        return "AsyncCompileMode"


def search(options):
    import torch
    import triton
    from tuners_kernels import KERNELS, first
    x, weight, y = tensors(options.rows, options.columns)
    triton.jit(first)[(1,)](y)  # untimed: starts the compiler, the launcher and the context
    configs = [triton.Config({"ROWS": rows}, num_warps=warps, num_stages=stages)
               for rows, warps, stages in chosen(options.configurations)]
    jit = triton.jit(KERNELS[options.operation])
    own = options.mode != "triton"
    tuned = triton.autotune(configs, key=["H"],
                            **({} if own else {"do_bench": fixed_samples(options.samples)}))(jit)
    arguments = (x, weight, y, options.rows)
    grid = lambda meta: (triton.cdiv(options.rows, meta["ROWS"]),)  # noqa: E731
    launch = lambda: tuned[grid](*arguments, H=options.columns)  # noqa: E731
    torch.cuda.synchronize()
    began = time.perf_counter()
    compiled = "one after the other" if options.mode == "triton_as_it_is" else compile_all(
        jit, arguments, options.columns, configs)
    launch()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    best = tuned.best_config
    timings = getattr(tuned, "configs_timings", {})
    failed = sum(1 for times in timings.values()
                 if not (times[0] if isinstance(times, (list, tuple)) else times) < float("inf"))
    return {"search_seconds": seconds,
            "configurations": len(configs),
            "failed": failed,
            "compiled": compiled,
            "samples_per_configuration": "Triton's own" if own else options.samples,
            "timed_launches": None if own else options.samples * (len(configs) - failed),
            "config": config_text(best.kwargs["ROWS"], best.num_warps, best.num_stages)}


def winners(options):
    """Returns us of ligerdsl with LIGERDSL_TABLE, and of Triton's configurations."""
    import torch
    import triton
    from ligerdsl_ctypes import Library
    from timing import GpuTimer
    from tuners_kernels import KERNELS
    x, weight, y = tensors(options.rows, options.columns)
    timer = GpuTimer(x.device)
    context = Library(options.library).context(torch.device("cuda:0"))
    more = {"weight_dtype": "bf16", "eps": 1e-6} if options.operation == "rms_norm_forward" else {}
    bound = {"weight": weight} if more else {}
    plan = context.plan(options.operation, n_cols=options.columns, dtype="bf16", **more)
    us = {"ligerdsl": timer.measure(plan.bind(options.rows, x=x, y=y, **bound))["us"]}
    jit = triton.jit(KERNELS[options.operation])
    for name, text in json.loads(options.configs).items():
        rows, warps, stages = config_numbers(text)
        grid = (triton.cdiv(options.rows, rows),)
        us[name] = timer.measure(lambda: jit[grid](x, weight, y, options.rows, H=options.columns,
                                                   ROWS=rows, num_warps=warps,
                                                   num_stages=stages))["us"]
    return us


def versions(_):
    import torch
    import triton
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
            "triton": triton.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(required=True)
    searching, timing = actions.add_parser("search"), actions.add_parser("time")
    searching.add_argument("mode")
    for action in (searching, timing):
        action.add_argument("operation")
        action.add_argument("rows", type=int)
        action.add_argument("columns", type=int)
    searching.add_argument("--configurations", type=int, required=True)
    searching.add_argument("--samples", type=int, required=True)
    timing.add_argument("--library", required=True)
    timing.add_argument("--configs", required=True)
    searching.set_defaults(body=search)
    timing.set_defaults(body=winners)
    actions.add_parser("versions").set_defaults(body=versions)
    options = parser.parse_args()
    print(json.dumps(options.body(options)))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    sys.exit(main())
