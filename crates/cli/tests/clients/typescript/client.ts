// Sends, receives and acknowledges with openapi-fetch and the types that openapi-typescript makes of the description.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

const [, , url, topic] = process.argv;
if (url === undefined || topic === undefined) throw new Error("usage: client.js URL TOPIC");
const client = createClient<paths>({ baseUrl: url });

function expect(condition: boolean, text: string): asserts condition {
  if (!condition) throw new Error(text);
}

const message: components["schemas"]["Send"] = {
  topic,
  idem_key: "order-17",
  payload_b64: btoa("paid"),
  attrs: { currency: "EUR" },
};
const sent = await client.POST("/v1/send", { body: message });
if (sent.error) throw new Error(`${sent.error.code}: ${sent.error.message}`);
expect(!sent.data.duplicate, "it is new");
const repeated = await client.POST("/v1/send", { body: message });
expect(repeated.data?.duplicate === true && repeated.data.msg_id === sent.data.msg_id, "it came before");

const received = await client.POST("/v1/recv", { body: { topic, visibility_ms: 60_000, wait_ms: 1_000 } });
if (received.error) throw new Error(`${received.error.code}: ${received.error.message}`);
const [envelope, ...others] = received.data.messages;
expect(envelope !== undefined && others.length === 0, "one message");
expect(atob(envelope.payload_b64) === "paid", "its payload");
expect(envelope.attrs["currency"] === "EUR", "its attributes");

const ack = await client.POST("/v1/ack/{delivery}", { params: { path: { delivery: envelope.receipt } } });
expect(ack.data?.ok === true, "it is acknowledged");
const late = await client.POST("/v1/nack/{delivery}", { params: { path: { delivery: envelope.receipt } }, body: { reason: "late" } });
expect(late.response.status === 404 && late.error?.code === "E_LEASE_LOST", "it is settled already");

// One outcome per message, also for what is none.
const batch = await client.POST("/v1/send/batch", { body: { messages: [{ ...message, idem_key: "order-18" }, "nonsense"] } });
expect(batch.data?.results.map((result) => result.ok).join() === "true,false", "one of two");
expect(batch.data.results[1]?.code === "E_SCHEMA", "the other says why");

const counts = await client.GET("/v1/counts", { params: { query: { topic } } });
expect(counts.data?.ready === 1, "one is left");

// What the description rules out does not compile.
// @ts-expect-error: a message has a key.
const keyless: components["schemas"]["Send"] = { topic, payload_b64: "" };
// @ts-expect-error: a number.
const worded: components["schemas"]["Recv"] = { topic, wait_ms: "long" };
// @ts-expect-error: no such field.
const unknown: components["schemas"]["Send"] = { ...message, priority: 1 };
// @ts-expect-error: a purge is confirmed, or a dry run.
const unconfirmed: components["schemas"]["Purge"] = { topic };
// @ts-expect-error: a message of a batch has a key, too.
const batched: components["schemas"]["SendBatch"] = { messages: [{ topic, payload_b64: "" }] };
void [keyless, worded, unknown, unconfirmed, batched];

console.log("sent, received, acknowledged");
