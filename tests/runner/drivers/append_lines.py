"""Append answers to a run folder as fast as it goes; each is told on stdout once it is appended.

``append_lines.py FOLDER N``: begins the folder, or resumes it and runs what is left of N requests.
At the end ``done`` and the counts are told.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sortedf.runner.folder import RunFolder
from sortedf.runner.run_identity import MANIFEST


def main() -> None:
    """Do what the command line says."""
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    inputs = {f"r-{index}": f"{index:064x}" for index in range(count)}
    manifest = {"engine": "none"}
    if (path / MANIFEST).exists():
        folder = RunFolder.resume(path, manifest, inputs=inputs)
    else:
        folder = RunFolder.create(path, manifest, plan=b"{}", plan_name="-", inputs=inputs)
    with folder:
        # Standard output is a pipe; one write each, so that nothing waits in a buffer of ours.
        os.write(1, b"ready\n")
        for index, name in enumerate(inputs):
            if name in folder.status:
                continue
            if index % 7 == 3 and folder.attempt.name == "1":
                response = None  # to be superseded by an answer
            else:
                text = "é" * (index * 37 % 3000)
                response = {"status_code": 200, "body": {"choices": [{"text": text}]}}
            folder.append({"custom_id": name, "response": response})
            if response:
                os.write(1, f"{name}\n".encode())
        os.write(1, f"done {' '.join(map(str, folder.finish()))}\n".encode())


if __name__ == "__main__":
    main()
