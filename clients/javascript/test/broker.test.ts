// The client's behaviour against a scripted server.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { type AcquireOptions, Broker, type BrokerOptions, type TicketingError } from "../src/index.js";
import { ScriptedServer, until, type Received, type Script } from "./support/server.js";

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function serve(script: Script): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(script);
  cleanups.push(() => server.stop());
  return server;
}

function connect(addresses: string | string[], options: Omit<BrokerOptions, "addresses"> = {}): Broker {
  const broker = new Broker({ addresses, ...options });
  cleanups.unshift(() => broker.close());
  return broker;
}

/** Grants every acquire with a rising token, and confirms every release. */
function friendly(): (request: Received) => void {
  let token = 0n;
  return (request) => {
    if (request.op === "A" || request.op === "S") request.peer.grant(request, ++token);
    else request.peer.reply(request.op, request.requestId);
  };
}

const TIMES = { wait: 5, lease: 30 };

test("acquires and releases one key and a set", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  const ticket = await broker.acquire("order-1", TIMES);
  assert.equal(ticket.token, 1n);
  assert.deepEqual(ticket.keys, ["order-1"]);
  assert.ok(ticket.remainingMs > 29_000 && ticket.remainingMs <= 30_000);
  assert.equal(await ticket.release(), "released");
  assert.equal(await ticket.release(), "released");
  const set = await broker.acquireSet(["b", "a", "b"], TIMES);
  assert.deepEqual(set.keys, ["a", "b"]);
  assert.equal(await set.release(), "released");
  const single = await broker.acquireSet(["x", "x"], TIMES);
  await single.release();
  assert.deepEqual(
    server.requests.map(({ op }) => op),
    ["A", "R", "S", "G", "A", "R"],
  );
});

test("opens two connections to one address and uses both", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  await until(() => server.peers.length === 2, "two connections");
  await broker.ready(5);
  for (let turn = 0; turn < 4; turn++) await (await broker.acquire("k", TIMES)).release();
  assert.deepEqual(new Set(server.requests.map(({ peer }) => peer.index)), new Set([0, 1]));
});

test("a refused token is named", async () => {
  const server = await serve({ token: "0123456789abcdef" });
  const broker = connect(server.address, { token: "another-token-16" });
  await assert.rejects(broker.ready(0.3), { code: "Unauthorized" });
  await assert.rejects(broker.acquire("k", { wait: 1, lease: 30 }), { code: "Unauthorized" });
});

test("no server: NotConnected, and the broker recovers when one comes", async () => {
  // Below the ports that the system chooses: no server of the tests in other processes gets it.
  const port = 10_000 + (process.pid % 20_000);
  const broker = connect(`127.0.0.1:${port}`);
  await assert.rejects(broker.acquire("k", { wait: 1, lease: 30 }), {
    code: "NotConnected",
    message: /127\.0\.0\.1:.*ECONNREFUSED/,
  });
  const revived = await ScriptedServer.start({ onRequest: friendly() }, port);
  cleanups.push(() => revived.stop());
  assert.equal((await broker.acquire("k", TIMES)).token, 1n);
});

test("Timeout and Busy come from the server at once", async () => {
  const server = await serve({ onRequest: ({ peer, requestId }) => peer.reply(requestId === 1n ? "T" : "B", requestId) });
  const broker = connect(server.address);
  await broker.ready(5);
  await until(() => server.peers.length === 2, "two connections");
  const codes: string[] = [];
  for (let turn = 0; turn < 4; turn++) {
    codes.push(
      await broker.acquire("k", TIMES).then(
        () => "granted",
        (error: unknown) => (error as TicketingError).code,
      ),
    );
  }
  assert.deepEqual(codes.sort(), ["Busy", "Busy", "Timeout", "Timeout"]);
});

test("a cut after the request left is Indeterminate and is not sent again", async () => {
  const server = await serve({ onRequest: ({ peer }) => peer.socket.destroy() });
  const broker = connect(server.address);
  await assert.rejects(broker.acquire("k", TIMES), { code: "Indeterminate" });
  await broker.ready(5);
  assert.equal(server.requests.length, 1);
});

test("NotActive is retried within the wait, another E is reported", async () => {
  let answered = 0;
  const grant = friendly();
  const server = await serve({
    onRequest: (request) => {
      answered += 1;
      if (answered === 1) request.peer.reply("E", request.requestId, Buffer.from([3]));
      else if (answered === 2) grant(request);
      else request.peer.reply("E", request.requestId, Buffer.from([2]));
    },
  });
  const broker = connect(server.address);
  assert.equal((await broker.acquire("k", TIMES)).token, 1n);
  await assert.rejects(broker.acquire("k", TIMES), { code: "Rejected", rejectionCode: 2 });
});

test("M leads to the leader, which later requests ask first", async () => {
  const fingerprint = Buffer.alloc(32, 7);
  const grant = friendly();
  const servers = await Promise.all(
    [0, 1, 2].map((slot) =>
      serve({
        mode: "cluster",
        slot,
        fingerprint,
        onRequest: (request) => (slot === 2 ? grant(request) : request.peer.reply("M", request.requestId, Buffer.from([2]))),
      }),
    ),
  );
  const broker = connect(
    servers.map(({ address }) => address),
    { fingerprint },
  );
  await until(() => servers.every(({ peers }) => peers.length === 1), "three connections");
  await broker.ready(5);
  const ticket = await broker.acquire("k", TIMES);
  assert.deepEqual(ticket.domain, { mode: "cluster", fingerprint: fingerprint.toString("hex") });
  await ticket.release();
  await (await broker.acquire("k", TIMES)).release();
  assert.ok(servers[0]!.requests.length + servers[1]!.requests.length <= 2);
});

test("a cancelled acquire that was sent releases its late grant and keeps the connection", async () => {
  let late: Received | undefined;
  const server = await serve({
    onRequest: (request) => {
      if (request.op === "A") late = request;
      else request.peer.reply("R", request.requestId);
    },
  });
  const broker = connect(server.address);
  const cancel = new AbortController();
  const acquire = broker.acquire("k", { ...TIMES, signal: cancel.signal });
  await until(() => late !== undefined, "the request arrives");
  cancel.abort(new Error("no longer wanted"));
  await assert.rejects(acquire, { code: "Cancelled" });
  late!.peer.grant(late!, 77n);
  await until(() => server.requests.some(({ op, token }) => op === "R" && token === 77n), "the late grant is released");
  assert.ok(!late!.peer.socket.destroyed);
});

test("cancelled before it was sent: nothing leaves", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  const signal = AbortSignal.abort();
  await assert.rejects(broker.acquire("k", { ...TIMES, signal }), { code: "Cancelled" });
  await broker.ready(5);
  assert.equal(server.requests.length, 0);
});

test("too little lease left: released and reported", async () => {
  const server = await serve({
    onRequest: (request) => {
      if (request.op === "A") setTimeout(() => request.peer.grant(request, 5n), 300);
      else request.peer.reply("R", request.requestId);
    },
  });
  const broker = connect(server.address);
  await assert.rejects(broker.acquire("k", { wait: 5, lease: 1, budget: 0.8 }), { code: "InsufficientLease" });
  await until(() => server.requests.some(({ op, token }) => op === "R" && token === 5n), "the release");
});

test("a release survives a cut and a leadership loss", async () => {
  let releases = 0;
  const grant = friendly();
  const server = await serve({
    onRequest: (request) => {
      if (request.op === "A") return grant(request);
      releases += 1;
      if (releases === 1) request.peer.socket.destroy();
      else if (releases === 2) request.peer.reply("I", request.requestId);
      else request.peer.reply("N", request.requestId);
    },
  });
  const broker = connect(server.address);
  const ticket = await broker.acquire("k", TIMES);
  assert.equal(await ticket.release(), "not-held");
  assert.equal(releases, 3);
});

test("a reply to an unknown id ends the session; the next one works", async () => {
  const grant = friendly();
  let first = true;
  const server = await serve({
    onRequest: (request) => {
      if (!first) return grant(request);
      first = false;
      request.peer.reply("R", 99n);
    },
  });
  const broker = connect(server.address);
  await assert.rejects(broker.acquire("k", TIMES), { code: "Indeterminate" });
  assert.equal((await broker.acquire("k", TIMES)).token, 1n);
});

test("the pending limit and the input rules refuse before anything is sent", async () => {
  const server = await serve({});
  const broker = connect(server.address, { pendingCountMax: 1 });
  await broker.ready(5);
  const pending = broker.acquire("k", { wait: 1, lease: 30 });
  pending.catch(() => undefined);
  await assert.rejects(broker.acquire("k", TIMES), { code: "ClientCapacity" });
  await until(() => server.requests.length === 1, "the first request");
  const bad = [
    broker.acquire("", TIMES),
    broker.acquire("a b", TIMES),
    broker.acquire("k".repeat(129), TIMES),
    broker.acquire("\ud800", TIMES),
    broker.acquire("k", undefined as unknown as AcquireOptions),
    broker.acquire("k", { wait: 256, lease: 30 }),
    broker.acquire("k", { wait: -1, lease: 30 }),
    broker.acquire("k", { wait: 1, lease: 0 }),
    broker.acquire("k", { wait: 1, lease: 251 }),
    broker.acquire("k", { wait: 1, lease: 1.5 }),
    broker.acquire("k", { wait: 1, lease: 30, budget: 30 }),
    broker.acquire("k", { wait: 1, lease: 30, bugdet: 3 } as AcquireOptions),
    broker.acquireSet(
      Array.from({ length: 17 }, (_, index) => `k${index}`),
      TIMES,
    ),
    broker.acquireSet([], TIMES),
    broker.acquireSet([5 as unknown as string], TIMES),
    broker.acquire("k", { ...TIMES, wait: null as unknown as number }),
    broker.acquire("k", { ...TIMES, budget: "1" as unknown as number }),
    broker.acquire("k", { ...TIMES, signal: {} as AbortSignal }),
    broker.acquire("k", { ...TIMES, signal: null as unknown as AbortSignal }),
  ];
  for (const call of bad) await assert.rejects(call, { code: "InvalidInput" });
  assert.equal(server.requests.length, 1);
});

test("a time of another type is refused in words that show it", async () => {
  const server = await serve({});
  const broker = connect(server.address);
  const refused = (times: Record<string, unknown>, message: RegExp) =>
    assert.rejects(broker.acquire("k", { ...TIMES, ...times }), { code: "InvalidInput", message });
  await refused({ wait: "5" }, /got '5'$/);
  await refused({ wait: 5n }, /got 5n$/);
  await refused({ lease: [30] }, /got \[ 30 \]$/);
  await refused({ lease: Symbol("s") }, /got Symbol\(s\)$/);
  await refused({ budget: Object.create(null) }, /got \[Object: null prototype\] \{\}$/);
  assert.equal(server.requests.length, 0);
});

test("one key where a set is expected is refused, not taken apart", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  for (const keys of ["xyz", Buffer.from("xyz"), 5, null] as unknown as string[][]) {
    await assert.rejects(broker.acquireSet(keys, TIMES), { code: "InvalidInput", message: /array of keys.*acquire/ });
  }
  assert.equal(server.requests.length, 0);
});

test("bad broker options are refused with a message that names them", () => {
  const bad: [BrokerOptions, RegExp][] = [
    [{ addresses: "127.0.0.1" }, /host:port/],
    [{ addresses: ["127.0.0.1:1", "127.0.0.1:2"] }, /exactly 1 address/],
    [{ addresses: ["127.0.0.1:1", "127.0.0.1:2"], fingerprint: "00".repeat(32) }, /3 or 5/],
    [{ addresses: "127.0.0.1:1", fingerprint: "00" }, /64 hexadecimal/],
    [{ addresses: "10.0.0.1:1" }, /token is needed: 10\.0\.0\.1/],
    [{ addresses: "127.0.0.1:1", token: "short" }, /16 to 4096/],
    [{ addresses: "127.0.0.1:1", pendingCountMax: 0 }, /pendingCountMax/],
    ["127.0.0.1:1" as unknown as BrokerOptions, /such as { addresses/],
    [{ addresses: "127.0.0.1:1", tsl: true } as BrokerOptions, /no option "tsl": known are .*tls/],
    [{ addresses: 5225 as unknown as string }, /addresses is a string/],
    [{ addresses: [5225 as unknown as string] }, /addresses is a string/],
    [{} as BrokerOptions, /addresses is a string/],
    [{ addresses: "127.0.0.1:1", fingerprint: 5 as unknown as string }, /fingerprint is a string/],
    [{ addresses: "127.0.0.1:1", fingerprint: null as unknown as string }, /fingerprint is a string/],
    [{ addresses: "127.0.0.1:1", token: 5 as unknown as string }, /token is a string/],
    [{ addresses: "127.0.0.1:1", tls: null as unknown as boolean }, /tls is true, false or options/],
    [{ addresses: "127.0.0.1:1", tls: { ca: 5 as unknown as string } }, /ca \(PEM\) is a string/],
    [{ addresses: "127.0.0.1:1", tls: { caFile: 5 as unknown as string } }, /caFile is a string/],
    [{ addresses: "127.0.0.1:1", tls: { serverName: 5 as unknown as string } }, /serverName is a string/],
    [{ addresses: "127.0.0.1:1", tls: { cafile: "ca.pem" } as object }, /no option "cafile": .*caFile/],
  ];
  for (const [options, message] of bad) assert.throws(() => new Broker(options), { code: "InvalidInput", message });
});

test("close refuses new calls, ends open ones and is idempotent", async () => {
  const server = await serve({});
  const broker = connect(server.address);
  const acquire = broker.acquire("k", TIMES);
  await until(() => server.requests.length === 1, "the request");
  const outcome = assert.rejects(acquire, { code: "Indeterminate" });
  await broker.close();
  await outcome;
  await broker.close();
  await assert.rejects(broker.acquire("k", TIMES), { code: "Closed" });
  await until(() => server.peers.every(({ socket }) => socket.destroyed || socket.readableEnded), "sockets close");
});

test("withLock releases after success and after failure", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  assert.equal(await broker.withLock("k", TIMES, ({ token }) => token), 1n);
  const failure = broker.withLock("k", TIMES, () => Promise.reject(new Error("work failed")));
  await assert.rejects(failure, /work failed/);
  assert.equal(server.requests.filter(({ op }) => op === "R").length, 2);
});

test("an abandoned ticket is released in the background", async () => {
  const server = await serve({ onRequest: friendly() });
  const broker = connect(server.address);
  (await broker.acquire("k", TIMES)).abandon();
  await until(() => server.requests.some(({ op }) => op === "R"), "the release");
});

test("no secret shows in the broker's inspection", async () => {
  const { inspect } = await import("node:util");
  const broker = connect("127.0.0.1:1", { token: "a-very-secret-token" });
  assert.ok(!inspect(broker, { depth: 9, showHidden: true }).includes("secret"));
});
