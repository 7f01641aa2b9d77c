// The golden vectors: the same bytes as every other client and the server.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { checkVerdict, ProofRefused, proofFor, type Expected } from "../src/handshake.js";
import { checkedKey, checkedKeySet } from "../src/keys.js";
import { answers, encodeAcquire, encodeRelease, ProtocolFault, ReplyDecoder } from "../src/protocol.js";
import type { Reply, RequestKind, VoterCount } from "../src/protocol.js";

interface Case {
  id: string;
  direction: "hello" | "proof" | "reply" | "request" | "result";
  mode: "cluster" | "single";
  voter_count: VoterCount;
  expected_slot?: string;
  requests_hex?: string[];
  fields?: Record<string, string[] | string>;
  hex: string;
  expect: "ok" | "reject";
  layer?: "correlation" | "frame" | "hello" | "proof" | "value";
}

interface VectorFile {
  topic: string;
  case_count: number;
  cases: Case[];
}

const DIRECTORY = new URL("../../../../../vectors/", import.meta.url);

/** Topics that only a server can get wrong: what it must refuse never leaves this client. */
const SERVER_TOPICS = new Set(["invalid-frame-request", "invalid-value-request", "order-of-checks"]);

const files: VectorFile[] = readdirSync(DIRECTORY)
  .filter((name) => name.endsWith(".json"))
  .map((name) => JSON.parse(readFileSync(new URL(name, DIRECTORY), "utf8")) as VectorFile);

for (const file of files.filter(({ topic }) => !SERVER_TOPICS.has(topic))) {
  test(file.topic, () => {
    assert.equal(file.cases.length, file.case_count);
    // A proof that the server must refuse is the server's to judge as well.
    for (const vector of file.cases) if (vector.direction !== "proof" || vector.expect === "ok") check(vector);
  });
}

test("values that the server refuses are refused before sending", () => {
  const file = files.find(({ topic }) => topic === "invalid-value-request");
  assert.ok(file);
  let run = 0;
  for (const { id, fields } of file.cases) {
    if (fields === undefined) continue;
    const single = fields["key_hex"];
    // Order and duplicates of a set are the client's own to mend; each key by itself is not.
    const keys = single === undefined ? (fields["keys_hex"] as string[]) : [single as string];
    const bytes = keys.map((hex) => Buffer.from(hex, "hex"));
    const badKey = bytes.some((key) => refuses(() => checkedKey(key)));
    const badSet = single === undefined && refuses(() => checkedKeySet(bytes));
    const mended = new Set(keys).size < 17 && keys.length > 0;
    const lease = Number(fields["lease"] ?? "1");
    const badOther = lease < 1 || lease > 250 || fields["token"] === "0";
    assert.ok(badKey || badSet || badOther || mended, id);
    run += 1;
  }
  assert.ok(run > 0);
});

function refuses(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch {
    return true;
  }
}

function check(vector: Case): void {
  switch (vector.direction) {
    case "request":
      assert.equal(encodeRequest(vector.fields!).toString("hex"), vector.hex, vector.id);
      return;
    case "reply":
      checkReply(vector);
      return;
    case "hello":
      checkHello(vector);
      return;
    case "proof":
      checkProof(vector);
      return;
    case "result":
      assert.throws(() => checkVerdict(Number.parseInt(vector.hex, 16)), vector.hex === "00" ? ProofRefused : ProtocolFault);
  }
}

function encodeRequest(fields: Record<string, string[] | string>): Buffer {
  const keyHex = fields["key_hex"] as string | undefined;
  const keys = keyHex === undefined ? (fields["keys_hex"] as string[]) : [keyHex];
  const bytes = keys.map((hex) => Buffer.from(hex, "hex"));
  const requestId = BigInt(fields["request_id"] as string);
  if (fields["op"] === "A" || fields["op"] === "S") {
    return encodeAcquire(requestId, Number(fields["wait"]), Number(fields["lease"]), bytes);
  }
  return encodeRelease(requestId, BigInt(fields["token"] as string), bytes);
}

/** Decodes a stream given in the pieces that `cuts` make of it. */
function decode(bytes: Buffer, voterCount: VoterCount, cuts: number[]): Reply[] {
  const decoder = new ReplyDecoder(voterCount);
  const replies: Reply[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    decoder.push(bytes.subarray(from, to), (reply) => replies.push(reply));
    from = to;
  }
  return replies;
}

function checkReply(vector: Case): void {
  const bytes = Buffer.from(vector.hex, "hex");
  const cuts = Array.from({ length: bytes.length }, (_, index) => [index]);
  for (const cut of [[], ...cuts, bytes.length > 2 ? [1, 2] : []]) {
    if (vector.expect === "ok") {
      assert.deepEqual(decode(bytes, vector.voter_count, cut), [expectedReply(vector.fields!)], vector.id);
      const twice = decode(Buffer.concat([bytes, bytes]), vector.voter_count, cut);
      assert.equal(twice.length, 2, vector.id);
    } else if (vector.layer === "correlation") {
      assert.ok(uncorrelated(decode(bytes, vector.voter_count, cut), vector.requests_hex ?? []), vector.id);
    } else {
      assert.throws(() => decode(bytes, vector.voter_count, cut), ProtocolFault, vector.id);
    }
  }
}

function expectedReply(fields: Record<string, string[] | string>): Reply {
  const slot = fields["slot"] === "255" ? undefined : Number(fields["slot"]);
  return {
    op: fields["op"],
    ...(fields["request_id"] === undefined ? {} : { requestId: BigInt(fields["request_id"] as string) }),
    ...(fields["token"] === undefined ? {} : { token: BigInt(fields["token"] as string) }),
    ...(fields["code"] === undefined ? {} : { code: Number(fields["code"]) }),
    ...(fields["slot"] === undefined ? {} : { leader: slot }),
  } as Reply;
}

/** Whether some reply fits no waiting request, by the rule the connection uses. */
function uncorrelated(replies: Reply[], requestsHex: string[]): boolean {
  const waiting = new Map<bigint, RequestKind>();
  for (const hex of requestsHex) {
    const frame = Buffer.from(hex, "hex");
    waiting.set(frame.readBigUInt64BE(3), String.fromCharCode(frame[0]!) as RequestKind);
  }
  return replies.some((reply) => {
    if (reply.op === "L") return false;
    const kind = waiting.get(reply.requestId);
    waiting.delete(reply.requestId);
    return kind === undefined || !answers(reply, kind);
  });
}

function checkHello(vector: Case): void {
  const slot = Number(vector.expected_slot ?? "255");
  const fingerprint = Buffer.alloc(32);
  const expected: Expected = vector.mode === "single" ? { mode: "single" } : { mode: "cluster", slot, fingerprint };
  const run = (): unknown => proofFor(Buffer.from(vector.hex, "hex"), expected, Buffer.alloc(0));
  if (vector.expect === "ok") run();
  else assert.throws(run, ProtocolFault, vector.id);
}

function checkProof({ id, fields, hex, mode }: Case): void {
  const field = (name: string): string => fields![name] as string;
  const slot = Number(field("slot"));
  const fingerprint = Buffer.from(field("fingerprint_hex"), "hex");
  const expected: Expected = mode === "single" ? { mode: "single" } : { mode: "cluster", slot, fingerprint };
  const identity = Buffer.from([0, Number(field("version")), mode === "single" ? 0 : 1, slot]);
  const hello = Buffer.concat([Buffer.from("TCKCLI3\0"), identity, Buffer.from(field("nonce_hex"), "hex")]);
  assert.equal(proofFor(hello, expected, Buffer.from(field("token_hex"), "hex")).toString("hex"), hex, id);
}
