"""Sends, receives and acknowledges with the package that openapi-python-client generates from the description."""

import base64
import importlib
import pkgutil
import sys

import oncebox_api
from oncebox_api import Client
from oncebox_api.api.mailbox import ack, nack, recv, send, send_batch
from oncebox_api.api.operator import count_messages
from oncebox_api.models import (
    ErrorBody,
    ErrorCode,
    NackRetryRequest,
    RecvRequest,
    RecvResponse,
    SendBatchRequest,
    SendRequest,
    SendRequestAttrs,
    SendResponse,
)

url, topic = sys.argv[1:]

# Every module can be imported, also those that are not used here.
for module in pkgutil.walk_packages(oncebox_api.__path__, "oncebox_api."):
    importlib.import_module(module.name)

with Client(base_url=url) as client:
    payload = base64.b64encode(b"paid").decode()
    attrs = SendRequestAttrs.from_dict({"currency": "EUR"})
    message = SendRequest(topic=topic, idem_key="order-17", payload_b64=payload, attrs=attrs)
    sent = send.sync(client=client, body=message)
    assert isinstance(sent, SendResponse) and not sent.duplicate, sent
    repeated = send.sync(client=client, body=message)
    assert isinstance(repeated, SendResponse) and repeated.duplicate and repeated.msg_id == sent.msg_id, repeated

    received = recv.sync(client=client, body=RecvRequest(topic=topic, visibility_ms=60_000, wait_ms=1_000))
    assert isinstance(received, RecvResponse), received
    [envelope] = received.messages
    assert base64.b64decode(envelope.payload_b64) == b"paid", envelope
    assert envelope.attrs["currency"] == "EUR", envelope

    settled = ack.sync(envelope.receipt, client=client)
    assert settled.ok, settled
    late = nack.sync_detailed(envelope.receipt, client=client, body=NackRetryRequest(reason="late"))
    assert late.status_code == 404 and isinstance(late.parsed, ErrorBody), late
    assert late.parsed.code == ErrorCode.E_LEASE_LOST, late

    # One outcome per item, also for an invalid one.
    batch = SendBatchRequest(messages=[SendRequest(topic=topic, idem_key="order-18", payload_b64=payload), "nonsense"])
    results = send_batch.sync(client=client, body=batch).results
    assert [result.ok for result in results] == [True, False], results
    assert results[1].code == ErrorCode.E_SCHEMA, results

    counts = count_messages.sync(client=client, topic=topic)
    assert counts.ready == 1, counts

print("sent, received, acknowledged")
