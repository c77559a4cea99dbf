"""The endpoint client's own CPU time, against a scripted server in another process.

Keeps `--concurrency` requests in flight at a server that answers after `--delay` seconds, and divides the CPU time of
this process (user and system) by the requests. Where a request costs 0.5 ms, a hundred a second take 5 % of one core.
Writing the answers to disk is part of the measurement. Exits with 1 above `--bar`, or where the server did not have
at least 90 % of the requests at once.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from weakspots.serving.endpoint import Endpoint
from weakspots.serving.store import ask_all

SERVER = Path(__file__).parent.parent / "tests/scripted.py"


def cpu_seconds() -> float:
    """Time that this process has spent on a core so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints the client's share of a core in every round; ends with 1 above the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=512, help="tokens of a prompt")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds that the server takes for an answer")
    parser.add_argument("--bar", type=float, default=5.0, help="most %% of one core per 100 requests a second")
    arguments = parser.parse_args()

    with TemporaryDirectory() as folder:
        address = Path(folder) / "url"
        command = [sys.executable, SERVER, "--port-file", address, "--delay", str(arguments.delay)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            while not address.exists() and server.poll() is None:
                time.sleep(0.05)
            url = address.read_text()
            backend = Endpoint(url, "scripted", concurrency=arguments.concurrency)
            print(f"prompts of {arguments.length} tokens, {arguments.concurrency} requests in flight\n")
            print("| round | requests a second | CPU ms a request | % of a core at 100 a second |\n|---|---|---|---|")
            shares = []
            for number in range(arguments.rounds):
                prompts = [
                    (str(prompt), list(range(prompt, prompt + arguments.length)))
                    for prompt in range(arguments.requests)
                ]
                began, used = time.perf_counter(), cpu_seconds()
                ask_all(backend, prompts, Path(folder) / f"{number}.jsonl")
                seconds, used = time.perf_counter() - began, cpu_seconds() - used
                rate = arguments.requests / seconds
                shares.append(100 * 100 * used / arguments.requests)
                each = 1000 * used / arguments.requests
                print(f"| {number + 1} | {rate:.0f} | {each:.3f} | {shares[-1]:.2f} |")
        finally:
            server.terminate()
            at_once = float(server.communicate()[0] or 0)
    share = statistics.median(shares)
    passed = share <= arguments.bar and at_once >= 0.9 * arguments.concurrency
    print(f"\nthe server had {at_once:.0f} requests at once (median)")
    print(f"median {share:.2f} % of a core, bar {arguments.bar:g} %: {'reached' if passed else 'missed'}")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
