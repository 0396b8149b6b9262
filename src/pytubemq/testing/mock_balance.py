"""A mock Master's responses to client-balanced consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code
from pytubemq.model.ids import UNDEFINED
from pytubemq.wire.protocol.messages import master
from pytubemq.wire.text.broker_strings import format_broker_info
from pytubemq.wire.text.topic_strings import TopicMetaBroker, TopicMetaInfo, format_topic_meta_info

if TYPE_CHECKING:
    from pytubemq.testing.mock_state import MockCluster

OK: dict[str, Any] = {"err_code": int(Code.SUCCESS), "err_msg": "OK!"}


class MockBalance:
    """The Master's side of client-balanced groups; part of `MockHandlers`."""

    _mock: MockCluster

    def _RegisterRequestC2MV2(self, request: master.RegisterRequestC2MV2) -> Any:
        mock = self._mock
        for topic in request.topic_list:
            if topic not in mock.topics:
                return self._no(master.RegisterResponseM2CV2, Code.TOPIC_NOT_DEPLOYED, f"topic {topic} does not exist")
        others = [who for who, group in mock.consumers.items() if group == request.group_name]
        for other in others:
            if other != request.client_id and mock.nodes.get(other) == request.node_id >= 0:
                text = f"node {request.node_id} is {other}"
                return self._no(master.RegisterResponseM2CV2, Code.CLIENT_DUPLICATE_INDEXID, text)
        mock.consumers[request.client_id] = request.group_name
        mock.nodes[request.client_id] = request.node_id
        mock.subscriptions[request.client_id] = request.topic_list
        self._note(request.client_id, request.sub_rep_info, fresh=True)
        return master.RegisterResponseM2CV2(**OK, **self._brokers(request.sub_rep_info), **self._ops(request))

    def _HeartRequestC2MV2(self, request: master.HeartRequestC2MV2) -> Any:
        if request.client_id not in self._mock.consumers:
            return self._no(master.HeartResponseM2CV2, Code.HB_NO_NODE, f"not registered: {request.client_id}")
        reported = request.sub_rep_info
        waits = request.max_wait_ms is not None and reported is not None
        meta = self._meta_fields(request.client_id, reported.topic_meta_info_id) if waits and reported else {}
        return master.HeartResponseM2CV2(**OK, **meta, **self._brokers(reported), **self._ops(request))

    def _begin_beat(self, request: master.HeartRequestC2MV2) -> None:
        """Record the report at once; the last heartbeat of a client is the only one that is held."""
        self._mock.last_beats[request.client_id] = request
        if request.client_id in self._mock.consumers:
            self._note(request.client_id, request.sub_rep_info)
        self._mock.touch()

    def _has_balance_news(self, request: master.HeartRequestC2MV2) -> bool:
        mock, reported = self._mock, request.sub_rep_info
        if request.client_id not in mock.consumers or mock.last_beats.get(request.client_id) is not request:
            return True
        meta_id = self._meta(request.client_id)[0]
        known = reported is not None and (reported.topic_meta_info_id, reported.broker_config_id) == (
            meta_id,
            mock.check_sum,
        )
        return not known or self._ops(request)["ops_task_info"].csm_frm_max_offset_ctrl_id is not None

    def _GetPartMetaRequestC2M(self, request: master.GetPartMetaRequestC2M) -> Any:
        if request.client_id not in self._mock.consumers:
            return self._no(master.GetPartMetaResponseM2C, Code.HB_NO_NODE, f"not registered: {request.client_id}")
        return master.GetPartMetaResponseM2C(
            **OK, **self._meta_fields(request.client_id, request.topic_meta_info_id), **self._brokers(request)
        )

    def _meta_fields(self, client_id: str, known_id: int) -> dict[str, Any]:
        meta_id, items = self._meta(client_id)
        return {"topic_meta_info_id": meta_id, "topic_meta_info_list": () if known_id == meta_id else items}

    def _meta(self, client_id: str) -> tuple[int, tuple[str, ...]]:
        mock = self._mock
        items = self._topics(mock.subscriptions[client_id])
        if mock.told_meta != items:
            mock.told_meta = items
            mock.meta_id += 1
        return mock.meta_id, items

    def _topics(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        mock = self._mock
        return tuple(
            format_topic_meta_info(
                TopicMetaInfo(
                    topic,
                    tuple(
                        TopicMetaBroker(one.broker_id, 1, one.topics[topic], one.online and topic not in mock.closed)
                        for one in (mock, *mock.peers)
                        if one.topics.get(topic)
                    ),
                )
            )
            for topic in topics
        )

    def _brokers(self, reported: Any) -> dict[str, Any]:
        mock = self._mock
        known = reported is not None and reported.broker_config_id == mock.check_sum
        infos = () if known else tuple(format_broker_info(one.info) for one in (mock, *mock.peers))
        return {"broker_config_id": mock.check_sum, "broker_config_list": infos}

    def _ops(self, request: Any) -> dict[str, Any]:
        reported = request.ops_task_info
        known = reported is not None and reported.csm_frm_max_offset_ctrl_id == self._mock.newest_id
        newest = None if known or self._mock.newest_id == UNDEFINED else self._mock.newest_id
        return {"ops_task_info": master.OpsTaskInfo(csm_frm_max_offset_ctrl_id=newest)}

    def _note(self, client_id: str, reported: master.ClientSubRepInfo | None, *, fresh: bool = False) -> None:
        if reported is not None and (reported.report_sub_info or fresh):
            self._mock.reported[client_id] = reported.part_sub_info

    def _no(self, response: Any, code: int, text: str) -> Any:
        return response(err_code=int(code), err_msg=text)
