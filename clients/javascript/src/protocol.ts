// Client wire protocol, version 3: requests to bytes, bytes to replies. No I/O.

export type RequestKind = "A" | "G" | "R" | "S";

/** A reply, with the fields its opcode carries. */
export type Reply =
  | { readonly op: "A" | "S"; readonly requestId: bigint; readonly token: bigint }
  | { readonly op: "B" | "G" | "I" | "N" | "R" | "T"; readonly requestId: bigint }
  | { readonly op: "M"; readonly requestId: bigint; readonly leader: number | undefined }
  | { readonly op: "E"; readonly requestId: bigint; readonly code: number }
  | { readonly op: "L"; readonly leader: number | undefined };

/** What the mode allows in replies: the number of slots, 0 in single mode. */
export type VoterCount = 0 | 1 | 3 | 5;

/** The peer broke the protocol; the session ends. */
export class ProtocolFault extends Error {}

export const ERROR_NOT_ACTIVE = 3;
export const ERROR_NO_LEADER = 4;

const HEAD_SIZE = 3;
const NO_SLOT = 255;
const ERROR_CODE_MAX = 7;
const SEVEN_BIT = 0x7f;

const BODY_SIZES: Readonly<Record<string, number>> = { A: 16, B: 8, E: 9, G: 8, I: 8, L: 1, M: 9, N: 8, R: 8, S: 16, T: 8 };

/** Error codes by the kinds of request they may answer. */
const ERROR_ANSWERS = ["", "ARSG", "AS", "ARSG", "ARSG", "SG", "RG", "RG"] as const;

const ANSWERS: Readonly<Record<Exclude<Reply["op"], "E" | "L">, string>> = {
  A: "A",
  B: "AS",
  G: "G",
  I: "ARSG",
  M: "ARSG",
  N: "RG",
  R: "R",
  S: "S",
  T: "AS",
};

/** Whether a reply fits the kind of the request with its id. */
export function answers(reply: Exclude<Reply, { op: "L" }>, kind: RequestKind): boolean {
  const kinds = reply.op === "E" ? (ERROR_ANSWERS[reply.code] ?? "") : ANSWERS[reply.op];
  return kinds.includes(kind);
}

/** `A` for one key, `S` for a set. Keys are checked and ascending. */
export function encodeAcquire(requestId: bigint, waitSeconds: number, leaseSeconds: number, keys: readonly Buffer[]): Buffer {
  const frame = newFrame(keys.length === 1 ? "A" : "S", 10, requestId, keys);
  frame[11] = waitSeconds;
  frame[12] = leaseSeconds;
  return frame;
}

/** `R` for one key, `G` for a set. Keys are checked and ascending. */
export function encodeRelease(requestId: bigint, token: bigint, keys: readonly Buffer[]): Buffer {
  const frame = newFrame(keys.length === 1 ? "R" : "G", 16, requestId, keys);
  frame.writeBigUInt64BE(token, 11);
  return frame;
}

/** A frame with header, request id and keys; the bytes between them (up to `fixedSize`) are the caller's. */
function newFrame(kind: RequestKind, fixedSize: number, requestId: bigint, keys: readonly Buffer[]): Buffer {
  const single = keys.length === 1;
  let size = HEAD_SIZE + fixedSize + (single ? 0 : 1);
  for (const key of keys) size += key.length + (single ? 0 : 1);
  const frame = Buffer.allocUnsafe(size);
  frame[0] = kind.charCodeAt(0);
  frame.writeUInt16BE(size - HEAD_SIZE, 1);
  frame.writeBigUInt64BE(requestId, HEAD_SIZE);
  let offset = HEAD_SIZE + fixedSize;
  if (!single) frame[offset++] = keys.length;
  for (const key of keys) {
    if (!single) frame[offset++] = key.length;
    frame.set(key, offset);
    offset += key.length;
  }
  return frame;
}

/** Turns the bytes of a connection into replies; keeps what is not whole yet. */
export class ReplyDecoder {
  #tail: Buffer = Buffer.alloc(0);

  constructor(readonly voterCount: VoterCount) {}

  /** Hands every whole reply to `take`. Throws {@link ProtocolFault} at the first that breaks the protocol. */
  push(chunk: Buffer, take: (reply: Reply) => void): void {
    const bytes = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    let offset = 0;
    for (;;) {
      const size = this.#frameSize(bytes, offset);
      if (size === undefined || bytes.length - offset < size) break;
      const reply = this.#decode(bytes, offset);
      offset += size;
      take(reply);
    }
    this.#tail = offset === bytes.length ? Buffer.alloc(0) : Buffer.from(bytes.subarray(offset));
  }

  /** Size of the frame that begins at `offset`; `undefined` while its header is not whole. */
  #frameSize(bytes: Buffer, offset: number): number | undefined {
    if (offset >= bytes.length) return undefined;
    const opcode = bytes[offset]!;
    const op = String.fromCharCode(opcode);
    const bodySize = opcode <= SEVEN_BIT && Object.hasOwn(BODY_SIZES, op) ? BODY_SIZES[op] : undefined;
    if (bodySize === undefined) throw new ProtocolFault(`unknown reply opcode ${opcode}`);
    if (op === "L" && this.voterCount === 0) throw new ProtocolFault("leader announcement in single mode");
    if (bytes.length - offset < HEAD_SIZE) return undefined;
    if (bytes.readUInt16BE(offset + 1) !== bodySize) throw new ProtocolFault(`reply ${op} with a wrong body length`);
    return HEAD_SIZE + bodySize;
  }

  #decode(bytes: Buffer, offset: number): Reply {
    const op = String.fromCharCode(bytes[offset]!) as Reply["op"];
    const body = offset + HEAD_SIZE;
    if (op === "L") return { op, leader: this.#slot(bytes[body]!) };
    const requestId = bytes.readBigUInt64BE(body);
    if (requestId === 0n) throw new ProtocolFault("reply to request id 0");
    switch (op) {
      case "A":
      case "S": {
        const token = bytes.readBigUInt64BE(body + 8);
        if (token === 0n) throw new ProtocolFault("grant with token 0");
        return { op, requestId, token };
      }
      case "E": {
        const code = bytes[body + 8]!;
        if (code < 1 || code > ERROR_CODE_MAX) throw new ProtocolFault(`unknown error code ${code}`);
        return { op, requestId, code };
      }
      case "M":
        return { op, requestId, leader: this.#slot(bytes[body + 8]!) };
      default:
        return { op, requestId };
    }
  }

  #slot(slot: number): number | undefined {
    if (slot === NO_SLOT) return undefined;
    if (slot >= this.voterCount) throw new ProtocolFault(`slot ${slot} outside the cluster`);
    return slot;
  }
}
