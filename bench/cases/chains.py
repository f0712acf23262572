"""Chains: one kernel's forward and backward, many times on one stream, like a training step's small
kernels.

Each link of a chain has its own tensors. Together they exceed every L2, so each link reads its
inputs from memory.
"""

from .common import Case, Contender, Pass, case
from .norms import rms_norm

LINKS = 8
# contenders that overwrite inputs or need long tuning
NOT_IN_CHAINS = ("liger_inplace", "liger_cute", "compile_max", "quack_tuned")


def chain(kernel, build, *arguments, **more):
    """Returns a case whose only pass runs LINKS cases of `build` in a row; times and bytes are per
    link."""
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
        return Contender({"chain": Pass(queue, lambda: numbered([link.wrote() for link in one]),
                                        sum(link.own_bytes for link in one),
                                        sum(link.workspace_bytes for link in one))})

    make = {provider: lambda provider=provider: contender(provider) for provider in links[0].make
            if provider not in NOT_IN_CHAINS}
    exact = numbered([case.exact for case in links])
    return Case(kernel, links[0].shape, links[0].dtype, {"chain": links[0].bytes["full"]}, make,
                exact, links=LINKS)


def numbered(links):
    """Merges the links' dictionaries; appends the link's number to each output's name."""
    return {f"{name}{i}": value for i, link in enumerate(links) for name, value in link.items()}


@case
def rms_norm_chain(context, M, H, dtype):
    return chain("rms_norm_chain", rms_norm, context, M, H, dtype=dtype)
