// Sends jobs for the given time, then drains them; prints the rates as a line of JSON. Needs an installed
// graphile-worker.
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const [connectionString, callersText, batchText, secondsText] = process.argv.slice(2);
const [callers, batch, seconds] = [callersText, batchText, secondsText].map(Number);
const logger = new Logger(() => () => {});
// The library listens on one connection and works on the others.
const pool = { connectionString, maxPoolSize: Math.max(callers, 4), logger };
const payload = { payload: "x".repeat(256) };
const run_name = `${process.pid}-${Date.now()}`;
const now = () => performance.now() / 1000;

async function send(utils) {
  let made = 0;
  const start = now();
  const spec = () => ({ identifier: "payment.received", payload, jobKey: `evt_${run_name}_${(made += 1)}` });
  const one = async () => {
    while (now() - start < seconds) {
      if (batch === 1) {
        const { identifier, jobKey } = spec();
        await utils.addJob(identifier, payload, { jobKey });
      } else {
        await utils.addJobs(Array.from({ length: batch }, spec));
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, one));
  return { jobs: made, took: now() - start };
}

// The settings that its documentation recommends for throughput: jobs are fetched and completed in batches.
const preset = { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } };

async function drain(jobs) {
  let left = jobs;
  let ended;
  const all = new Promise((resolve) => (ended = resolve));
  const task = async () => void ((left -= 1) === 0 && ended());
  const start = now();
  const runner = await run({
    ...pool, preset, concurrency: callers, noHandleSignals: true, taskList: { "payment.received": task },
  });
  await all;
  await runner.stop();
  return now() - start;
}

const utils = await makeWorkerUtils(pool);
await utils.migrate();
// Connections are opened before the measurement starts.
await Promise.all(Array.from({ length: callers }, () => utils.withPgClient((client) => client.query("select pg_sleep(0.05)"))));
const { jobs, took } = await send(utils);
const drained = await drain(jobs);
const { rows } = await utils.withPgClient((client) => client.query("select count(*)::int as count from graphile_worker.jobs"));
await utils.release();
console.log(JSON.stringify({
  sent_per_second: jobs / took, drained_per_second: jobs / drained, per_second: jobs / (took + drained), left: rows[0].count,
}));
