"""Chains: forward and backward of one kernel over and over on one stream, as a training step queues small kernels.

Each link of a chain has tensors of its own, which together exceed every L2: a link finds its inputs in memory, not in a cache.
"""

from .common import Case, Contender, Pass
from .norms import rms_norm

LINKS = 8
NOT_IN_CHAINS = ("liger_inplace", "liger_cute", "compile_max", "quack_tuned")  # what writes over its inputs, or takes long to tune


def chain(kernel, build, *arguments, **more):
    """A case whose one pass runs LINKS cases of `build`, one after the other; its times and bytes are those of one link."""
    links = [build(*arguments, **more) for _ in range(LINKS)]

    def contender(provider):
        one = [case.make[provider]().passes["full"] for case in links]

        def run():
            return numbered([link.run() for link in one])

        def queue():
            for link in one:
                link.run()

        if not one[0].wrote:
            return Contender({"chain": Pass(run)})
        return Contender({"chain": Pass(queue, lambda: numbered([link.wrote() for link in one]), sum(link.own_bytes for link in one),
                                        sum(link.workspace_bytes for link in one))})

    make = {provider: lambda provider=provider: contender(provider) for provider in links[0].make if provider not in NOT_IN_CHAINS}
    exact = numbered([case.exact for case in links])
    return Case(kernel, links[0].shape, links[0].dtype, {"chain": links[0].bytes["full"]}, make, exact, links=LINKS)


def numbered(links):
    """One dictionary of the links' dictionaries: the name of an output is followed by its link's number."""
    return {f"{name}{i}": value for i, link in enumerate(links) for name, value in link.items()}


def rms_norm_chain(context, M, H, dtype):
    return chain("rms_norm_chain", rms_norm, context, M, H, dtype=dtype)
