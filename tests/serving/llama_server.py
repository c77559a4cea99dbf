"""A real completions server, llama.cpp's, for one GGUF file: `python llama_server.py MODEL.gguf ADDRESS_FILE`.

On loopback, at a port that the system chooses; its URL is written to ADDRESS_FILE when it answers.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp

if __name__ == "__main__":
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 1024
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    address = Path(sys.argv[2])
    partial = address.with_suffix(".partial")
    partial.write_text(f"{server.listening_address}/v1")
    partial.rename(address)
    threading.Event().wait()
