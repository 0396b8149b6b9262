"""The short names of parameters: one table for all methods, the original's."""

from __future__ import annotations

_TABLE = """
topicName/topic groupName/group partitionId/pid createUser/cur modifyUser/mur createDate/cDate modifyDate/mDate
dataVersionId/dataVerId manualOffset/offset msgCount/cnt filterConds/flts requireRealOffset/dko needRefresh/nrf
callerIp/cip withIp/ip divide/div sourceGroupName/srcGroup targetGroupName/tgtGroup manualSet/manSet
offsetJsonInfo/offsetInfo onlyMemory/onlyMem confModAuthToken/authToken brokerWebPort/bWebPort groupId/gId
topicNameId/topicId numTopicStores/numStore numPartitions/numPart unflushThreshold/unfDskMsgCnt
unflushInterval/unfDskInt unflushDataHold/unfDskDataSize memCacheMsgSizeInMB/cacheSizeInMB
memCacheMsgCntInK/unfMemMsgCnt memCacheFlushIntvl/unfMemInt acceptPublish/accPub acceptSubscribe/accSub
deletePolicy/delPolicy topicJsonSet/topicSet brokerJsonSet/brokerSet qryPriorityId/qryPriId flowCtrlInfo/flowCtrlSet
filterCondJsonSet/filterJsonSet flowCtrlEnable/fCtrlEn resCheckEnable/resChkEn alwdBrokerClientRate/abcr
allowedBClientRate/abcr disableCsmRsn/dsCsmRsn filterEnable/fltEn manageStatus/mSts topicStatusId/tStsId
enableAuthControl/acEn consumeEnable/csmEn groupCsmJsonSet/csmJsonSet withTopic/wTopic isReservedData/isRsvDt
withGroupAuthInfo/wGAI withDeployInfo/wDI topicCtrlJsonSet/tCtrlSet groupResCtrlJsonSet/gResCtrlSet
groupNameJsonSet/gJsonSet reJoinWait/rjWait consumerId/csmId relReason/rRsn withDetail/wDtl onlyAbnormal/oAbn
onlyAutoForbidden/oAfb onlyEnableTLS/oEtls recordTime/rt endTime/et maxRetryCnt/mrc statsType/st backupPath/bPath
"""

SHORT_NAMES: dict[str, str] = dict(pair.split("/") for pair in _TABLE.split())

_ONE_NAME = """
method type callback brokerId brokerIp brokerPort brokerTLSPort regionId maxMsgSizeInMB statusId condStatus isInclude
isEnable consumeGroup enableBind durability
"""

KNOWN_NAMES = frozenset(SHORT_NAMES) | frozenset(SHORT_NAMES.values()) | frozenset(_ONE_NAME.split())
"""Every name that some method accepts. A method skips those that are not its own, as the original does."""
