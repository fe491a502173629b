"""Leads schemathesis deep: requests that fit the schema get names that the server knows, so that more than refusals is seen.

Counts what every operation answered, and writes it to the file that ONCEBOX_API_FUZZ_ANSWERS names, one line each:
operation, status, count, with tabs between.
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
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

TOPICS = ["orders", "mails", "a topic/with?signs#é"]
KEYS = [f"key-{number}" for number in range(40)]
POOL_MAX = 200
# The server is allowed to wait for as long as a request says. A fuzzer cannot: valid waits become short valid waits.
WAIT_MS_MAX = 20
# Held for long, so that a receipt is still good when its turn comes.
VISIBILITY_MS = 600_000

# So few receipts are too few.
RECEIPTS_MIN = 10

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
    """One of the pool, or the value if there is none."""
    return chance.choice(pools[name]) if pools[name] else value


def post(path, body):
    url = os.environ["ONCEBOX_API_FUZZ_URL"] + path
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def refill():
    """Deliveries of our own, so that settling does not depend on who comes first."""
    payload = base64.b64encode(b"deep").decode()
    for _ in range(2 * RECEIPTS_MIN):
        key = f"deep-{chance.getrandbits(64):x}"
        post("/v1/send", {"topic": "deep", "idem_key": key, "payload_b64": payload})
    learn(post("/v1/recv", {"topic": "deep", "visibility_ms": VISIBILITY_MS}))


def take_receipt(path):
    """A receipt: most of those that end a delivery are used once."""
    if len(pools["receipt"]) < RECEIPTS_MIN:
        refill()
    at = chance.randrange(len(pools["receipt"]))
    ends = not path.startswith("/v1/extend") and likely(80)
    return pools["receipt"].pop(at) if ends else pools["receipt"][at]


def fit(message):
    """A message to be sent, with a topic that somebody receives and a key that may have come before."""
    if likely(80):
        message["topic"] = chance.choice(TOPICS)
    if likely(50):
        message["idem_key"] = chance.choice(KEYS)
    if likely(80):
        message.pop("payload_hash", None)


def fit_settlement(item):
    if likely(80):
        item["delivery"] = take_receipt("/v1/settle")


def fit_sweep(body):
    if likely(50):
        body["ids"] = [some("dead", "01ARZ3NDEKTSV4RRFFQ69G5FAV") for _ in range(chance.randrange(1, 4))]
        for name in ("topic", "source", "reason", "state"):
            body.pop(name, None)
    else:
        body["ids"] = []
        if likely(80):
            body.pop("source", None)
            body.pop("topic", None)


def fit_body(path, body):
    if path == "/v1/send":
        fit(body)
    elif path == "/v1/send/batch":
        for message in body["messages"]:
            fit(message)
    elif path in ("/v1/recv", "/v1/recv/stream", "/v1/work"):
        wish = body.get("recv", body)
        if likely(80):
            wish["topic"] = chance.choice(TOPICS)
        if likely(60):
            wish["visibility_ms"] = VISIBILITY_MS
        if path == "/v1/recv/stream":
            wish.pop("request_id", None)
        for item in body.get("settle", []):
            fit_settlement(item)
    elif path == "/v1/settle":
        for item in body["settle"]:
            fit_settlement(item)
    elif path in ("/v1/dlq/reprocess", "/v1/messages/redrive", "/v1/messages/purge"):
        fit_sweep(body)
        if path == "/v1/messages/redrive" and likely(80):
            body.pop("state", None)
        if path == "/v1/messages/purge" and likely(90):
            body["dry_run"] = likely(80)
            body["confirm"] = True
    elif path.startswith("/v1/inbox/"):
        if likely(70):
            body["key"] = chance.choice(KEYS)
        if "leaseId" in body and pools["lease"] and likely(70):
            body["key"], body["leaseId"] = chance.choice(pools["lease"])


def shorten(body):
    for wish in (body, body.get("recv")):
        if isinstance(wish, dict):
            wait = wish.get("wait_ms")
            if isinstance(wait, int) and not isinstance(wait, bool) and WAIT_MS_MAX < wait <= 60_000:
                wish["wait_ms"] = wait % (WAIT_MS_MAX + 1)


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
        if path == "/v1/messages/{id}" and likely(80):
            named["id"] = some("message", named["id"])
        if path == "/v1/dlq/{msg_id}" and likely(80):
            named["msg_id"] = some("dead", named["msg_id"])
        if path == "/v1/inbox/{key}" and likely(70):
            named["key"] = chance.choice(KEYS)
        query = case.query or {}
        if path == "/v1/messages/by-key" and likely(80):
            query["source"], query["id"] = chance.choice(TOPICS), chance.choice(KEYS)
            query.pop("namespace", None)
        if "after" in query and likely(80):
            query["after"] = some("next", query["after"])


@schemathesis.hook
def after_call(context, case, response):
    path = case.operation.path
    with lock:
        # Other methods than the described one are another question than the operation's.
        if case.method.upper() == case.operation.method.upper():
            answers[case.operation.label, response.status_code] += 1
        if response.status_code != 200 or "json" not in str(response.headers.get("content-type")):
            return
        if path == "/v1/recv/stream":
            return
        told = response.json()
        learn(told)
        if isinstance(case.body, dict) and isinstance(told, dict) and "leaseId" in told:
            keep("lease", (case.body.get("key"), told["leaseId"]))


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


# Rules between fields, which a schema of ours does not say: a request that breaks them fits the schema and is refused.
RULES = (
    "source is missing",  # of by-key: the ledger needs none
    "messages are named by ids",
    "only Dead messages are redriven",
    "a purge cannot be undone",
    "a stream cannot be repeated",
    "request_id is not a UUID, or is the nil one",
    # Opaque names: a schema says nothing of them.
    "delivery is neither a receipt nor the id of a message",
    "after is not one of ours",
    # Lengths are characters in a schema and bytes in a store.
    "bytes",
    # Up to 64 attributes, of 16 KiB together, with names of their own.
    "attrs",
    # `1.0` is an integer to a schema, and none to the server.
    "wrong type: expected a whole number",
)
INTEGER_MAX = 2**63 - 1


@schemathesis.check
def right_requests_are_taken(ctx, response, case):
    """What fits the schema is not refused as wrong, but for rules between fields."""
    if response.status_code == 400 and any(rule in response.json().get("message", "") for rule in RULES):
        return None
    # The ids of a sweep.
    if response.status_code == 400 and isinstance(case.body, dict) and "ids" in case.body:
        if "neither a ULID nor a UUID" in response.json().get("message", ""):
            return None
    # Too large, and a payload that does not match its hash.
    if response.status_code in (413, 422):
        return None
    return positive_data_acceptance(ctx, response, case)


@schemathesis.check
def wrong_requests_are_refused(ctx, response, case):
    """What does not fit the schema is refused, as far as the schema is strict."""
    body = case.body if isinstance(case.body, dict) else {}
    # A batch is answered item by item: a wrong one is refused in its place.
    if response.status_code == 200 and case.operation.path in BATCHES:
        if any(not result["ok"] for result in response.json()["results"]):
            return None
    # The ledger takes unknown fields and any number of seconds, on purpose.
    if case.operation.path.startswith("/v1/inbox/") and isinstance(body.get("key"), str) and body["key"].strip():
        return None
    # `int64` is all that the document can say of a number without a bound: larger ones are taken, too.
    wishes = [wish for wish in (body, body.get("recv")) if isinstance(wish, dict)]
    if any(type(wish.get("max_bytes")) is int and wish["max_bytes"] > INTEGER_MAX for wish in wishes):
        return None
    return negative_data_rejection(ctx, response, case)


BATCHES = {"/v1/send/batch": "messages", "/v1/settle": "settle", "/v1/work": "settle"}


@schemathesis.check
def one_outcome_per_item(ctx, response, case):
    """Batches are answered item by item, in order."""
    item = BATCHES.get(case.operation.path)
    if item is None or response.status_code != 200 or not isinstance(case.body, dict):
        return
    asked, told = len(case.body.get(item) or []), len(response.json()["results"])
    assert asked == told, f"{asked} items were sent, {told} outcomes came"


@schemathesis.check
def the_request_is_named(ctx, response, case):
    """Every answer has the id that ties it to the logs; so has every refusal, in its body too."""
    corr_id = response.headers.get("x-corr-id")
    assert corr_id, "the answer has no X-Corr-Id"
    if response.status_code >= 400 and "problem" not in str(response.headers.get("content-type")):
        told = response.json()
        if "code" in told:
            assert [told["corr_id"]] == list(corr_id), "the body names another request than the header"


@atexit.register
def tell():
    name = os.environ.get("ONCEBOX_API_FUZZ_ANSWERS")
    if name:
        with open(name, "a", encoding="utf-8") as file:
            for (operation, status), count in sorted(answers.items()):
                file.write(f"{operation}\t{status}\t{count}\n")
