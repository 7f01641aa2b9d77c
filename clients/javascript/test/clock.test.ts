// Time that passes, and not less.

import assert from "node:assert/strict";
import { test } from "node:test";

import { now, pause } from "../src/clock.js";
import { Once } from "../src/once.js";

test("a pause is never shorter than asked for", async () => {
  for (let round = 0; round < 100; round += 1) {
    const ms = 1 + (round % 10) / 10;
    const start = now();
    await pause(ms, new Once());
    assert.ok(now() - start >= ms, `${ms} ms took ${now() - start} ms`);
  }
});

test("a pause ends with what it waits for", async () => {
  const end = new Once();
  const paused = pause(60_000, end);
  end.happen();
  await paused;
  await pause(60_000, end);
});
