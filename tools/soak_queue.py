"""Kill processes of the queue again and again; check that no acknowledged job is lost or repeated.

    python -m tools.soak_queue --seconds 600 --seed 1

Rounds alternate between SQLite and Postgres. The Postgres server runs in a temporary folder, and is
itself killed at times between rounds of children. Logs of a failed round stay in build/soak.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from tests.service.queue.crashing import crash
from tests.service.queue.places import Place
from tests.support.postgres import Cluster, why_no_postgres

FOLDER = Path("build") / "soak" / "queue"

_ROUND_SECONDS = 30.0


def soak_round(cluster: Cluster | None, seconds: float, seed: int) -> None:
    """Kill the processes of one queue for some seconds; raise `AssertionError` if a check fails."""
    folder = FOLDER / f"{'sqlite' if cluster is None else 'postgres'}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "queue").mkdir(parents=True, mode=0o700)
    place = Place(None if cluster is None else cluster.url, folder / "queue")
    chance = random.Random(seed)

    def between() -> None:
        if cluster is not None and chance.random() < 0.2:
            cluster.kill()
            cluster.start()

    processes = 1 if cluster is None else 3
    log = crash(
        place.arguments, folder / "log", seconds, seed, processes=processes, between=between
    )
    print(
        f"{folder.name}: {log.kills} kills, {len(log.submitted)} jobs acknowledged, "
        f"{len(log.finished)} results",
        flush=True,
    )
    place.remove()
    shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if why_not := why_no_postgres():
        sys.exit(why_not)
    limit, seed = time.monotonic() + arguments.seconds, arguments.seed
    with Cluster() as cluster:
        while (remaining := limit - time.monotonic()) > 0:
            soak_round((None, cluster)[seed % 2], min(remaining, _ROUND_SECONDS), seed)
            seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
