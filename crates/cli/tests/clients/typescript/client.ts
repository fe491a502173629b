// Sends, receives and acknowledges with openapi-fetch and types that openapi-typescript generates from the description.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

const [, , url, topic] = process.argv;
if (url === undefined || topic === undefined) throw new Error("usage: client.js URL TOPIC");
const client = createClient<paths>({ baseUrl: url });

function expect(condition: boolean, text: string): asserts condition {
  if (!condition) throw new Error(text);
}

const message: components["schemas"]["SendRequest"] = {
  topic,
  idem_key: "order-17",
  payload_b64: btoa("paid"),
  attrs: { currency: "EUR" },
};
const sent = await client.POST("/v1/send", { body: message });
if (sent.error) throw new Error(`${sent.error.code}: ${sent.error.message}`);
expect(!sent.data.duplicate, "the message is new");
const repeated = await client.POST("/v1/send", { body: message });
expect(repeated.data?.duplicate === true && repeated.data.msg_id === sent.data.msg_id, "the message is a duplicate");

const received = await client.POST("/v1/recv", { body: { topic, visibility_ms: 60_000, wait_ms: 1_000 } });
if (received.error) throw new Error(`${received.error.code}: ${received.error.message}`);
const [envelope, ...others] = received.data.messages;
expect(envelope !== undefined && others.length === 0, "one message");
expect(atob(envelope.payload_b64) === "paid", "its payload");
expect(envelope.attrs["currency"] === "EUR", "its attributes");

const ack = await client.POST("/v1/ack/{delivery}", { params: { path: { delivery: envelope.receipt } } });
expect(ack.data?.ok === true, "the ack succeeds");
const late = await client.POST("/v1/nack/{delivery}", { params: { path: { delivery: envelope.receipt } }, body: { reason: "late" } });
expect(late.response.status === 404 && late.error?.code === "E_LEASE_LOST", "the delivery is already settled");

// One outcome per item, also for an invalid one.
const batch = await client.POST("/v1/queues/mailbox/send", { body: { messages: [{ ...message, idem_key: "order-18" }, "nonsense"] } });
expect(batch.data?.results.map((result) => result.ok).join() === "true,false", "one of the two is accepted");
expect(batch.data.results[1]?.code === "E_SCHEMA", "the other has an error code");

const counts = await client.GET("/v1/admin/counts", { params: { query: { topic } } });
expect(counts.data?.ready === 1, "one message is ready");

// Requests that do not match the description do not compile.
// @ts-expect-error: the key is missing.
const keyless: components["schemas"]["SendRequest"] = { topic, payload_b64: "" };
// @ts-expect-error: not a number.
const worded: components["schemas"]["RecvRequest"] = { topic, wait_ms: "long" };
// @ts-expect-error: unknown field.
const unknown: components["schemas"]["SendRequest"] = { ...message, priority: 1 };
// @ts-expect-error: neither confirmed nor a dry run.
const unconfirmed: components["schemas"]["PurgeRequest"] = { topic };
// @ts-expect-error: the key is missing in a batch.
const batched: components["schemas"]["SendBatchRequest"] = { messages: [{ topic, payload_b64: "" }] };
void [keyless, worded, unknown, unconfirmed, batched];

console.log("sent, received, acknowledged");
