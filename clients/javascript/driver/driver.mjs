// The conformance driver: the public API over standard input and output. Contract: conformance/DRIVER.md.

import { createInterface } from "node:readline";
import { Broker, TicketingError } from "ticketing";

const brokers = new Map();
const tickets = new Map();
const cancels = new Map();

const print = (line) => process.stdout.write(`${line}\n`);
const keyOf = (hex) => Buffer.from(hex === "-" ? "" : hex, "hex");
const keysOf = (hexes) => (hexes === "" ? [] : hexes.split(",").map(keyOf));
const find = (map, tag) => map.get(tag) ?? badCommand();

class BadCommand extends Error {}

function badCommand() {
  throw new BadCommand();
}

function open(tag, { addrs, mode, fingerprint, token, tls, server_name: serverName, pending }) {
  const options = { addresses: addrs.split(",") };
  if (mode === "cluster") options.fingerprint = fingerprint ?? "";
  else if (mode !== "single") badCommand();
  if (token !== undefined) options.token = Buffer.from(token, "hex");
  if (tls !== undefined && tls !== "off") options.tls = tlsOptions(tls);
  if (serverName !== undefined) options.tls = { ...options.tls, serverName };
  if (pending !== undefined) options.pendingCountMax = Number(pending);
  brokers.set(tag, new Broker(options));
  return "ok";
}

function tlsOptions(tls) {
  if (tls === "system") return {};
  if (tls === "insecure") return { insecure: true };
  if (tls.startsWith("ca:")) return { caFile: tls.slice("ca:".length) };
  return badCommand();
}

async function acquire(tag, { broker, key, keys, wait_ms: waitMs, lease, budget_ms: budgetMs }) {
  const cancel = new AbortController();
  cancels.set(tag, cancel);
  const options = { wait: Number(waitMs) / 1000, lease: Number(lease), signal: cancel.signal };
  if (budgetMs !== undefined) options.budget = Number(budgetMs) / 1000;
  const client = find(brokers, broker);
  try {
    const ticket =
      keys === undefined ? await client.acquire(keyOf(key), options) : await client.acquireSet(keysOf(keys), options);
    tickets.set(tag, ticket);
    return `granted token=${ticket.token} remaining_ms=${Math.floor(ticket.remainingMs)}`;
  } finally {
    cancels.delete(tag);
  }
}

async function pairs(tag, { broker, key, callers, count }) {
  const client = find(brokers, broker);
  let left = Number(count);
  let failed = 0;
  const caller = async (index) => {
    const own = Buffer.concat([keyOf(key), Buffer.from(String(index))]);
    while (left > 0) {
      left -= 1;
      try {
        const ticket = await client.acquire(own, { wait: 5, lease: 30 });
        if ((await ticket.release()) !== "released") failed += 1;
      } catch (error) {
        if (!(error instanceof TicketingError)) throw error;
        failed += 1;
      }
    }
  };
  const begin = process.hrtime.bigint();
  await Promise.all(Array.from({ length: Number(callers) }, (_, index) => caller(index)));
  return `pairs count=${count} failed=${failed} nanoseconds=${process.hrtime.bigint() - begin}`;
}

const verbs = {
  open,
  acquire,
  "acquire-set": acquire,
  pairs,
  async ready(_tag, { broker, timeout_ms: timeoutMs }) {
    await find(brokers, broker).ready(Number(timeoutMs) / 1000);
    return "ok";
  },
  cancel(_tag, { target }) {
    find(cancels, target).abort();
    return "ok";
  },
  release: (_tag, { ticket }) => find(tickets, ticket).release(),
  drop(_tag, { ticket }) {
    find(tickets, ticket).abandon();
    tickets.delete(ticket);
    return "ok";
  },
  async close(_tag, { broker }) {
    await find(brokers, broker).close();
    return "ok";
  },
};

const known = {
  open: ["addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending"],
  ready: ["broker", "timeout_ms"],
  acquire: ["broker", "key", "wait_ms", "lease", "budget_ms"],
  "acquire-set": ["broker", "keys", "wait_ms", "lease", "budget_ms"],
  cancel: ["target"],
  release: ["ticket"],
  drop: ["ticket"],
  close: ["broker"],
  pairs: ["broker", "key", "callers", "count"],
};

async function answer(line) {
  const [verb, tag, ...words] = line.split(" ");
  try {
    const options = Object.fromEntries(
      words.map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]),
    );
    if (!Object.hasOwn(known, verb) || !Object.keys(options).every((name) => known[verb].includes(name))) badCommand();
    print(`${tag} ${await verbs[verb](tag, options)}`);
  } catch (error) {
    if (error instanceof TicketingError) {
      print(`${tag} error ${error.code}${error.code === "Rejected" ? ` ${error.rejectionCode}` : ""}`);
    } else if (error instanceof BadCommand) {
      print(`${tag} error BadCommand`);
    } else {
      throw error;
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) void answer(line);
await Promise.all(Array.from(brokers.values(), (broker) => broker.close()));
