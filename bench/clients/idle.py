"""Opens connections and leaves them alone: says how many stand, waits for a line, says how many still stand."""

import contextlib
import select
import socket
import sys

from bench.clients.window import Spec, report, spec


def main(given: Spec) -> None:
    """Count a connection as standing while nothing, not even its end, has come over it."""
    host, port = given["address"].rsplit(":", 1)
    sockets = []
    with contextlib.ExitStack() as stack:
        for _ in range(given["connections"]):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            sockets.append(one)
        print(len(sockets), flush=True)
        sys.stdin.readline()
        poll = select.poll()
        for one in sockets:
            poll.register(one, select.POLLIN)
        report({"standing": len(sockets) - len(poll.poll(0))})


if __name__ == "__main__":
    main(spec())
