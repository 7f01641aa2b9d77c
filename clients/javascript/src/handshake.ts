// Hello, proof and verdict, as the client sees them. Protocol, "Connection". No I/O.

import { createHash, createHmac } from "node:crypto";
import { ProtocolFault } from "./protocol.js";

export const HELLO_SIZE = 28;

const MAGIC = Buffer.from("TCKCLI3\0", "latin1");
const VERSION = 3;
const PROOF_DOMAIN = Buffer.from("TCK/CLIENT/AUTH3", "latin1");
const SINGLE_FINGERPRINT = createHash("sha256").update("ticketing/single/v3").digest();
const SINGLE_SLOT = 255;

/** Whom the client expects to find: a single server, or one slot of a cluster. */
export type Expected =
  { readonly mode: "single" } | { readonly mode: "cluster"; readonly slot: number; readonly fingerprint: Buffer };

/** The server refused the token. */
export class ProofRefused extends Error {}

/** Checks the hello against what is expected, and answers it with the proof. */
export function proofFor(hello: Buffer, expected: Expected, token: Buffer): Buffer {
  const [mode, slot, fingerprint] =
    expected.mode === "single" ? [0, SINGLE_SLOT, SINGLE_FINGERPRINT] : [1, expected.slot, expected.fingerprint];
  if (hello.length !== HELLO_SIZE) throw new ProtocolFault(`a hello of ${hello.length} bytes, expected ${HELLO_SIZE}`);
  if (!hello.subarray(0, 8).equals(MAGIC)) throw new ProtocolFault("not a Ticketing server (wrong magic)");
  const version = hello.readUInt16BE(8);
  if (version !== VERSION) throw new ProtocolFault(`the server speaks wire version ${version}, this client ${VERSION}`);
  if (hello[10] !== mode) throw new ProtocolFault(`the server is not in ${expected.mode} mode`);
  if (hello[11] !== slot)
    throw new ProtocolFault(`the server is slot ${hello[11]}, expected ${slot}: check the order of the addresses`);
  const head = Buffer.from([0, VERSION, mode]);
  return createHmac("sha256", token)
    .update(Buffer.concat([PROOF_DOMAIN, head, fingerprint, Buffer.from([slot]), hello.subarray(12, HELLO_SIZE)]))
    .digest();
}

/** Reads the result byte. */
export function checkVerdict(verdict: number): void {
  if (verdict === 0) throw new ProofRefused("the server refused the token");
  if (verdict !== 1) throw new ProtocolFault(`handshake result ${verdict}, expected 0 or 1`);
}
