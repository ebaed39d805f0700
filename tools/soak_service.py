"""Kill servers and workers of the proving service again and again, until many jobs are proved.

    python -m tools.soak_service --jobs 10000 --seed 1

Half of the jobs go through SQLite and half through Postgres, which runs in a temporary folder. At
the end every acknowledged job must have succeeded once, with proofs that verify. The files of a
failed round stay in build/soak.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tests.service.queue.places import Place
from tests.service.worker.crashing import crash
from tests.support.postgres import Cluster, why_no_postgres

FOLDER = Path("build") / "soak" / "service"

# The number of jobs in a round; all results are checked at its end.
_JOBS = 2500
_PAUSE = (1.0, 5.0)


def soak_round(cluster: Cluster | None, jobs: int, seed: int) -> None:
    """Kill one service until `jobs` jobs are proved; raise `AssertionError` if a job is lost."""
    folder = FOLDER / f"{'sqlite' if cluster is None else 'postgres'}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "queue").mkdir(parents=True, mode=0o700)
    place = Place(None if cluster is None else cluster.url, (folder / "queue").resolve())
    toll = crash(place, folder.resolve(), jobs=jobs, seed=seed, pause=_PAUSE)
    print(
        f"{folder.name}: {toll.jobs} jobs in {toll.attempts} attempts; killed {toll.servers} "
        f"servers and {toll.workers} workers, stopped {toll.stopped}",
        flush=True,
    )
    place.remove()
    shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if why_not := why_no_postgres():
        sys.exit(why_not)
    remaining, seed = arguments.jobs, arguments.seed
    with Cluster() as cluster:
        while remaining > 0:
            # The last round may be a small one.
            soak_round((None, cluster)[seed % 2], min(remaining, _JOBS), seed)
            remaining, seed = remaining - _JOBS, seed + 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
