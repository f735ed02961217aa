"""What does asv's own timing say of the same programs?

    ASV_TIMING_OUT=out.json python asv_timing.py --size smoke --group core --only REGEX

runs in the environment under test, with the suite and `asv_runner` on PYTHONPATH, and writes the samples, in seconds a
call. It is asv's class TimeBenchmark, all of it default: wall time, samples of 10 ms or more after a tenth of a second of warming
up, five samples in each of two processes, of which this is one. Programs are compiled before, and none has a `setup`:
where there is one, asv_runner 0.3.2 times single calls, which is worse for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from asv_runner.benchmarks.time import TimeBenchmark


def main() -> None:
    """Time what is selected; what can't be prepared is left out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", required=True)
    parser.add_argument("--group", default=None)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    os.environ["STEPWATCH_SIZE"] = options.size  # read when the benchmarks are imported
    from benchmarks import worker

    found = []
    for kind, params in worker.select(worker.find_cases(), only=options.only, group=options.group):
        subject = kind()
        try:
            subject.setup(*params)
            subject.compile()
            samples = TimeBenchmark("time_call", subject.call, []).run()["samples"]
        except Exception as error:  # noqa: BLE001 - the other benchmarks go on
            sys.stderr.write(f"{worker.name_of(kind)}{params}: {error!r}\n")
            continue
        named = dict(zip(kind.param_names, params))  # noqa: B905 - Python 3.9 has no strict
        found.append({"name": worker.name_of(kind), "params": named, "samples": samples})
    Path(os.environ["ASV_TIMING_OUT"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
