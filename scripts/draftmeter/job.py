"""What every script of the workflow does first and last: log to the rule's file, end with a clear line on a usable error."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_FAILED = 1


@contextmanager
def job(log: str, *expected: type[Exception]) -> Iterator[None]:
    """Send logging to `log`; turn an exception of the `expected` kinds into one message on standard error and exit code 1.

    Anything else is a fault of ours and keeps its traceback.
    """
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    try:
        yield
    except expected as error:
        logging.error("%s", error)
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(EXIT_FAILED)
