"""quod resident: the process that keeps opened keys for other commands."""

from __future__ import annotations

from quod.cli.display.terminal import note, show
from quod.errors import QuodError


def status() -> None:
    """Describe the resident helper and the keys that it keeps."""
    from quod.resident import frames

    show(_answer(frames.STATUS) or "No resident helper runs.")


def stop() -> None:
    """End the resident helper, after the command that it runs."""
    from quod.resident import frames

    answered = _answer(frames.STOP) is not None
    note("The resident helper ends." if answered else "No resident helper runs.")


def _answer(kind: int) -> str | None:
    from quod.resident.client import ask
    from quod.resident.frames import FrameError
    from quod.resident.runtime_folder import ForeignError

    try:
        return ask(kind)
    except ForeignError as error:
        raise QuodError(f"the resident helper cannot be used ({error})") from error
    except (OSError, FrameError) as error:
        raise QuodError(
            f"the resident helper does not answer ({error}); end its process, "
            "`python -m quod.resident` in `ps`"
        ) from error
