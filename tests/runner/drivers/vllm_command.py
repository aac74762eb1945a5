"""The command line of vLLM where its build for the CPU is installed.

Runs in the environment of vLLM, not in the project's:

    python vllm_command.py serve MODEL ...

The command asks for the version of a distribution ``vllm``, which this build is not called.
"""

from __future__ import annotations

import importlib.metadata

installed = importlib.metadata.version


def version(distribution_name: str) -> str:
    """Give the version of a distribution; of vLLM by the name under which it is there."""
    try:
        return installed(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        # By the ending vLLM knows its platform.
        return installed(f"{distribution_name}-cpu") + "+cpu"


if __name__ == "__main__":
    importlib.metadata.version = version
    from vllm.entrypoints.cli.main import main

    main()
