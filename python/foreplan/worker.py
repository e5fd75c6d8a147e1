"""A process of foreplan.Processes: reads (work, part) from standard input, writes what comes of it."""

import pickle
import sys


def main() -> None:
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what hooks print must not get between the bytes
    work, part = pickle.load(sys.stdin.buffer)
    try:
        answer = work(part)
    except Exception as failure:  # noqa: BLE001 - it is raised again where the caller waits
        answer = failure
    out.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
