"""Running a program where neither this package nor anything of this process is there."""

import subprocess

from tests.forked_python import bare_python


def run_fresh(program, folder, *arguments, **environment):
    """Run a Python program in a folder, with a cache of its own there and without a network unless told otherwise.

    torch is imported already; transformers and datasets are not, which read the environment.
    """
    variables = {
        "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": "",
        **environment,
    }
    command = [*bare_python(), "-I", "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
