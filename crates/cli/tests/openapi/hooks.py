"""Makes valid schemathesis requests more useful: they get topics, keys and ids that the server knows, so that more than errors is tested.

No check is left out or weakened here. Two checks are added: one outcome per item of a batch, and a correlation id in every response. The
response statuses of every operation are counted and written to the file named by ONCEBOX_API_FUZZ_ANSWERS, in tab-separated lines of
operation, status and count.
"""

import atexit
import base64
import collections
import json
import os
import random
import threading
import urllib.request

import schemathesis

TOPICS = ["orders", "mails", "a topic/with?signs#é"]
KEYS = [f"key-{number}" for number in range(40)]
POOL_MAX = 200
# The server waits as long as a request asks for, which is too long for a fuzzer: valid waits become short valid waits.
WAIT_MS_MAX = 20
# Long, so that a receipt is still valid when it is used.
VISIBILITY_MS = 600_000
# The pool of receipts is refilled below this size.
RECEIPTS_MIN = 10
# A payload and its hash. No schema can express that they must match, so a request with a hash gets a matching pair.
HASHED = ("", "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
BATCHES = {"/v1/queues/mailbox/send": "messages", "/v1/settle": "settle", "/v1/work": "settle"}

chance = random.Random(int(os.environ.get("ONCEBOX_API_FUZZ_SEED", "1")))
lock = threading.Lock()
answers = collections.Counter()
pools = collections.defaultdict(list)


def likely(percent):
    return chance.randrange(100) < percent


def keep(name, value):
    pool = pools[name]
    pool.append(value)
    if len(pool) > POOL_MAX:
        pool.pop(chance.randrange(len(pool)))


def some(name, value):
    """A random value of the pool, or the given value if the pool is empty."""
    return chance.choice(pools[name]) if pools[name] else value


def post(path, body):
    url = os.environ["ONCEBOX_API_FUZZ_URL"] + path
    token = os.environ["ONCEBOX_API_FUZZ_TOKEN"]
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def refill():
    """Sends and receives messages, so that settling does not depend on the order of the requests."""
    payload = base64.b64encode(b"deep").decode()
    for _ in range(2 * RECEIPTS_MIN):
        key = f"deep-{chance.getrandbits(64):x}"
        post("/v1/send", {"topic": "deep", "idem_key": key, "payload_b64": payload})
    learn(post("/v1/recv", {"topic": "deep", "visibility_ms": VISIBILITY_MS}))


def take_receipt(path):
    """A receipt; most of those that end a delivery are used only once."""
    if len(pools["receipt"]) < RECEIPTS_MIN:
        refill()
    if not pools["receipt"]:
        return "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    at = chance.randrange(len(pools["receipt"]))
    ends = not path.startswith("/v1/extend") and likely(80)
    return pools["receipt"].pop(at) if ends else pools["receipt"][at]


def fit_message(message):
    """Gives a message a topic that is received from and a key that may have been used before."""
    if not isinstance(message, dict):
        return
    if likely(80):
        message["topic"] = chance.choice(TOPICS)
    if likely(50):
        message["idem_key"] = chance.choice(KEYS)
    if message.get("payload_hash") is not None:
        message["payload_b64"], message["payload_hash"] = HASHED
    # A message must be due before it expires, which no schema can express either.
    due, expires = message.get("due_in_ms"), message.get("expires_in_ms")
    if isinstance(due, (int, float)) and isinstance(expires, (int, float)) and due >= expires:
        message["due_in_ms"], message["expires_in_ms"] = 1, max(2, expires)
    # A message that is due later would not be received by any request.
    if likely(80):
        message.pop("due_in_ms", None)


def fit_settlement(item):
    if isinstance(item, dict) and likely(80):
        item["delivery"] = take_receipt("/v1/settle")


def fit_recv(recv):
    if likely(80):
        recv["topic"] = chance.choice(TOPICS)
    if likely(60):
        recv["visibility_ms"] = VISIBILITY_MS


def fit_body(path, body):
    if path == "/v1/send":
        fit_message(body)
    for item in body.get(BATCHES.get(path), []):
        (fit_message if path == "/v1/queues/mailbox/send" else fit_settlement)(item)
    if path in ("/v1/recv", "/v1/recv/stream", "/v1/work"):
        fit_recv(body.get("recv", body))
    # An unknown topic is not found.
    if path.endswith(("/redrive", "/reprocess")) and body.get("topic") and likely(80):
        body["topic"] = chance.choice(TOPICS)
    if body.get("ids"):
        body["ids"] = [some("dead", known) for known in body["ids"]]
    # Few messages would be left if every purge were real.
    if path == "/v1/admin/messages/purge" and body.get("confirm") and likely(80):
        body["dry_run"] = True
    if path.startswith("/v1/inbox/") and "key" in body:
        if likely(70):
            body["key"] = chance.choice(KEYS)
        if "leaseId" in body and pools["lease"] and likely(70):
            body["key"], body["leaseId"] = chance.choice(pools["lease"])


def shorten(body):
    for part in (body, body.get("recv")):
        if isinstance(part, dict):
            wait = part.get("wait_ms")
            if isinstance(wait, (int, float)) and not isinstance(wait, bool) and WAIT_MS_MAX < wait <= 60_000:
                part["wait_ms"] = int(wait) % (WAIT_MS_MAX + 1)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    with lock:
        if isinstance(case.body, dict):
            shorten(case.body)
        if case.meta is None or not case.meta.generation.mode.is_positive:
            return
        if isinstance(case.body, dict):
            fit_body(path, case.body)
        named = case.path_parameters or {}
        if "delivery" in named and likely(95):
            named["delivery"] = take_receipt(path)
        if path == "/v1/admin/messages/{msg_id}" and likely(80):
            named["msg_id"] = some("message", named["msg_id"])
        if path == "/v1/dlq/{msg_id}" and likely(80):
            named["msg_id"] = some("dead", named["msg_id"])
        if path == "/v1/inbox/{key}" and likely(70):
            named["key"] = chance.choice(KEYS)
        query = case.query or {}
        if path == "/v1/admin/messages/by-key" and likely(80):
            query["source"], query["id"] = chance.choice(TOPICS), chance.choice(KEYS)
            query.pop("namespace", None)
        if "after" in query and path != "/v1/admin/topics" and likely(80):
            query["after"] = some("next", query["after"])


@schemathesis.hook
def after_call(context, case, response):
    path = case.operation.path
    with lock:
        # Requests with another method do not count for the operation.
        if case.method.upper() == case.operation.method.upper():
            answers[case.operation.label, response.status_code] += 1
        if response.status_code != 200 or "json" not in str(response.headers.get("content-type")):
            return
        if path == "/v1/recv/stream":
            return
        body = response.json()
        learn(body)
        if isinstance(case.body, dict) and isinstance(body, dict) and "leaseId" in body:
            keep("lease", (case.body.get("key"), body["leaseId"]))


def learn(body):
    if not isinstance(body, dict):
        return
    for envelope in body.get("messages", []):
        if "receipt" in envelope:
            keep("receipt", envelope["receipt"])
        elif envelope.get("state") == "dead":
            keep("dead", chance.choice([envelope["msg_id"], envelope["uid"]]))
        elif "uid" in envelope:
            keep("message", envelope["uid"])
    if "msg_id" in body:
        keep("message", body["msg_id"])
    if body.get("next"):
        keep("next", body["next"])


@schemathesis.check
def one_outcome_per_item(ctx, response, case):
    """A batch has one outcome per item, in order."""
    item = BATCHES.get(case.operation.path)
    if item is None or response.status_code != 200 or not isinstance(case.body, dict):
        return
    sent, outcomes = len(case.body.get(item) or []), len(response.json()["results"])
    assert sent == outcomes, f"{sent} items were sent, but there are {outcomes} outcomes"


@schemathesis.check
def every_response_has_a_correlation_id(ctx, response, case):
    """Every response has the correlation id that is in the logs; errors also have it in the body."""
    corr_id = response.headers.get("x-corr-id")
    assert corr_id, "the response has no X-Corr-Id"
    if response.status_code >= 400:
        body = response.json()
        if "code" in body:
            assert [body["corr_id"]] == list(corr_id), "the body has another correlation id than the header"


@atexit.register
def write_answers():
    name = os.environ.get("ONCEBOX_API_FUZZ_ANSWERS")
    if name:
        with open(name, "a", encoding="utf-8") as file:
            for (operation, status), count in sorted(answers.items()):
                file.write(f"{operation}\t{status}\t{count}\n")
