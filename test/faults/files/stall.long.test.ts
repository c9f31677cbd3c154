import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { approvalLimits } from "../../../gateway/approvals/approvals.ts";
import { stallMs } from "../../../gateway/cli/files/stall-guard.ts";
import { errorOf } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { startBreakablePair, type BreakablePair } from "./one-way.ts";

const mega = 1_000_000;
const longMs = 3 * 60_000;
let pair: BreakablePair;

beforeAll(async () => {
  pair = await startBreakablePair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

proves(
  "files.stall-not-total",
  "a transfer may take long, but not stand still",
  { timeout: 2 * longMs + 4 * stallMs },
  async () => {
    expect(stallMs).toBe(60_000);
    await using here = await makeTempFolder();
    const sizeBytes = (longMs / 1000) * mega;
    await pair.workspace.write({ slow: randomBytes(sizeBytes) });
    pair.proxy.limit(mega);
    const slow = await pair.files(["get", "devbox:/app/slow", here.join("slow"), "--json"], {
      timeoutMs: 2 * longMs,
    });
    expect(slow.exitCode).toBe(0);
    const { bytesSent, durationMs } = slow.json as { bytesSent: number; durationMs: number };
    expect(bytesSent).toBe(sizeBytes);
    // It took about as long as the line makes it, far longer than what may pass without a byte.
    expect(durationMs).toBeGreaterThan(longMs * 0.8);

    await using program = spawnProgram(["files", "get", "devbox:/app/slow", here.join("again"), "--json"], {
      home: pair.gateway.home,
    });
    const at = pair.proxy.counts.up.bytes;
    await expect.poll(() => pair.proxy.counts.up.bytes - at, { timeout: 60_000 }).toBeGreaterThan(2 * mega);
    pair.proxy.stall();
    const { exitCode } = await program.ended;
    expect(exitCode).toBe(1);
    // It also says what is away: a line on which nothing moves is one on which no sign of life comes.
    expect(errorOf({ json: JSON.parse(program.stdout()) as unknown })).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringMatching(/^no byte moved for 60 s; .*devbox:\/app/) as unknown,
      details: { lost: "WORKSPACE_ACCESS_UNAVAILABLE", reason: "node_offline" },
    });
    pair.proxy.mend();
    pair.proxy.resume();
  },
);

test(
  "a file that waits for a person is waited for as long as the person, and then told so",
  { timeout: 2 * approvalLimits.waitMs },
  async () => {
    await using here = await makeTempFolder();
    await writeFile(here.join("new"), "content");
    await pair.setPolicy(
      `files:\n  ask: { nodes: ["${pair.node.nodeId}"], read: ["**"], write: [], ask: on-miss }\n`,
    );
    const startedAt = Date.now();
    const put = await pair.files(["put", here.join("new"), "devbox:/app/new", "--json"], {
      timeoutMs: 2 * approvalLimits.waitMs,
    });
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(approvalLimits.waitMs);
    expect([put.exitCode, errorOf(put)]).toMatchObject([
      3,
      { code: "APPROVAL_EXPIRED", details: { reason: "timeout" } },
    ]);
    expect(await pair.workspace.has("new")).toBe(false);
  },
);
