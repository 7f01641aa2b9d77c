// The key rule and the key-set rule: the same checks as the server's, before anything is sent.

import { InvalidInputError } from "./errors.js";
import { KEY_SIZE_BYTES_MAX, SET_KEY_COUNT_MAX } from "./limits.js";

/** A key: text, or the bytes of its UTF-8 form. 1–128 bytes without space, LF and CR. */
export type Key = string | Uint8Array;

const LONE_SURROGATE = /\p{Surrogate}/u;
const SPACE = 0x20;
const LF = 0x0a;
const CR = 0x0d;

/** The key's bytes, checked. */
export function checkedKey(key: Key): Buffer {
  const bytes = keyBytes(key);
  if (bytes.length < 1 || bytes.length > KEY_SIZE_BYTES_MAX) {
    throw new InvalidInputError(`a key has 1 to ${KEY_SIZE_BYTES_MAX} bytes; this one has ${bytes.length}`);
  }
  if (bytes.includes(SPACE) || bytes.includes(LF) || bytes.includes(CR)) {
    throw new InvalidInputError("a key must not contain a space, LF or CR; replace them, for example by '-'");
  }
  return bytes;
}

/** A set's keys as the wire wants them: checked, ascending bytewise, without duplicates. */
export function checkedKeySet(keys: Iterable<Key>): Buffer[] {
  // A string is iterable too: it would lock its letters, each by itself.
  if (typeof keys === "string" || keys instanceof Uint8Array || typeof keys?.[Symbol.iterator] !== "function") {
    throw new InvalidInputError('acquireSet takes an array of keys, such as ["a", "b"]; for one key there is acquire');
  }
  const sorted = Array.from(keys, checkedKey).sort((left, right) => Buffer.compare(left, right));
  const unique = sorted.filter((key, index) => index === 0 || !key.equals(sorted[index - 1]!));
  if (unique.length < 1 || unique.length > SET_KEY_COUNT_MAX) {
    throw new InvalidInputError(`a key set has 1 to ${SET_KEY_COUNT_MAX} different keys; this one has ${unique.length}`);
  }
  return unique;
}

function keyBytes(key: Key): Buffer {
  if (typeof key === "string") {
    if (LONE_SURROGATE.test(key)) {
      throw new InvalidInputError("a key must be valid Unicode; this one has a lone surrogate");
    }
    return Buffer.from(key, "utf8");
  }
  if (!(key instanceof Uint8Array)) {
    throw new InvalidInputError("a key is a string or a Uint8Array; acquireSet takes several");
  }
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(key);
  } catch (cause) {
    throw new InvalidInputError("a key must be valid UTF-8", { cause });
  }
  return Buffer.from(key);
}
