"""A JSON API with the answers of a small cluster, on a real socket, for tests of commands that read it."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any

TOPIC = {
    "name": "flights", "state": "deployed", "partitions": 4, "brokers": [1, 2], "messages": None,
    "created": "2026-01-31T12:00:00.000Z",
}  # fmt: skip
GROUP = {"name": "readers", "state": "stable", "topics": ["flights"], "members": 1, "lag_messages": 3}
MOVED = {
    "group": "readers", "to": "latest", "dry_run": False,
    "partitions": [
        {"partition": "1:flights:0", "old_offset": None, "new_offset": 280, "old_lag": 10, "new_lag": 0},
    ],
}  # fmt: skip
STORY = {
    "kind": "group", "name": "readers", "since": "2026-01-31T11:00:00.000Z",
    "entries": [
        {"time": "2026-01-31T12:00:00.000Z", "event": "joined", "text": "readers_1", "why": "", "user": ""},
    ],
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "/api/v1/topics": [TOPIC, {**TOPIC, "name": "ünï", "messages": 7}],
    "/api/v1/topics/flights": {
        **TOPIC,
        "partition_list": [{"broker": 1, "partition": 0, "min_offset": 0, "max_offset": 28, "messages": 1}],
    },
    "/api/v1/health": {"status": "healthy", "reasons": [], "brokers": 2},
    "/api/v1/cluster": {"name": "c", "masters": [{"address": "127.0.0.1:8715"}], "brokers": []},
    "/api/v1/brokers": [],
    "/api/v1/groups": [GROUP],
    "/api/v1/cluster/defaults": {"durability": "disk", "durability_from": "default", "retention": "168h"},
    "/api/v1/groups/readers/resets": {
        "resets": [
            {
                "time": "2026-01-31T12:00:00.000Z",
                "user": "ann",
                "group": "readers",
                "partition": "1:flights:0",
                "asked": "earliest",
                "old_offset": None,
                "new_offset": 0,
            },
        ],
        "unreachable": [],
        "unsupported": [],
    },
    "/api/v1/groups/readers/story": STORY,
    "/api/v1/brokers/1/story": STORY,
    "/api/v1/groups/readers": {
        **GROUP,
        "member_list": [{"id": "readers_1", "partitions": ["1:flights:0"]}],
        "lag": [{"broker": 1, "topic": "flights", "partition": 0, "lag_messages": 3}],
    },
}


class FakeApi:
    """Serves ANSWERS until closed; `asked` holds what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: dict[str, tuple[int, Any]] = {path: (200, value) for path, value in ANSWERS.items()}
        self.deletes: tuple[int, Any] = (
            200, {"name": "flights", "removed": True, "pending": [], "record_kept": False},
        )  # fmt: skip
        self.posted: dict[str, dict[str, Any]] = {}
        """What the answer to a POST has in addition, by path."""
        self.batches: list[dict[str, Any]] = []
        """The next answers to calls that create many topics."""
        self.places: list[dict[str, Any]] = []
        """Where a topic is that was made or changed."""
        self.counts: int | None = None
        """How many partitions it then has in all; None: as many as were asked for."""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(("GET", self.path, None))
                missing = 404, {"code": 404, "message": f"no {self.path}", "try": "t"}
                self._answer(*outer.answers.get(self.path, outer.answers.get(self.path.partition("?")[0], missing)))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(("POST", self.path, body))
                if self.path.endswith("batch"):
                    self._answer(201, outer.batches.pop(0))
                    return
                made = {
                    **TOPIC,
                    **body,
                    **outer.counted(),
                    "places": outer.places,
                    **outer.posted.get(self.path.partition("?")[0], {}),
                }
                self._answer(201, MOVED if self.path.endswith("/resets") else made)

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(("PATCH", self.path, body))
                self._answer(200, {**TOPIC, **body, **outer.counted(), "places": outer.places})

            def do_DELETE(self) -> None:
                outer.asked.append(("DELETE", self.path, None))
                self._answer(*outer.deletes)

            def _answer(self, status: int, value: Any) -> None:
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def counted(self) -> dict[str, int]:
        """The number of partitions that a test has given."""
        return {} if self.counts is None else {"partitions": self.counts}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
