import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { isFault } from "../../../shared/fault/fault.ts";
import type { RootHandle } from "../../../shared/root/root-handle.ts";
import { openTempRoot, p } from "../../unit/root/temp-root.ts";

/** How long an attack goes on: until both numbers are reached. */
export interface Attack {
  readonly swaps: number;
  readonly operations: number;
  readonly followSymlinks: boolean;
}

/** What came of an attack. */
export interface AttackOutcome {
  readonly swaps: number;
  readonly done: number;
  readonly refused: number;
}

const outsideNames = ["canary", "f0", "keep", "secret", "sub", "victim"];

/**
 * Runs reads, listings, writes and removals on `d` while another process flips `d` between a folder and a link to the
 * outside. Fails as soon as a byte of the outside is seen, or anything outside differs at the end.
 */
export async function attackSwappedParent({
  swaps,
  operations,
  followSymlinks,
}: Attack): Promise<AttackOutcome> {
  await using temp = await openTempRoot(
    (dir, outside) => {
      mkdirSync(join(dir, "d/sub"), { recursive: true });
      for (const name of ["f0", "secret", "sub/x"]) writeFileSync(join(dir, "d", name), "inside");
      mkdirSync(join(outside, "sub"));
      for (const name of ["canary", "f0", "keep", "secret", "victim", "sub/x"]) {
        writeFileSync(join(outside, name), "OUTSIDE");
      }
    },
    { followSymlinks },
  );
  symlinkSync("../outside", join(temp.dir, "d.try"));
  const racer = fork(new URL("../../fixtures/root/swap-folder.ts", import.meta.url), [
    temp.dir,
    "../outside",
    String(swaps),
  ]);
  const exited = once(racer, "exit");
  let swapped = 0;
  racer.on("message", (message) => {
    if (typeof message === "object" && "swaps" in message) swapped = Number(message.swaps);
  });
  const outcome = await attack(temp.root, (count) => swapped < swaps || count < operations);
  racer.kill();
  await exited;
  requireUntouched(temp.outside);
  return { ...outcome, swaps: swapped };
}

function requireUntouched(outside: string): void {
  expect(readdirSync(outside).toSorted()).toEqual(outsideNames);
  for (const name of ["canary", "f0", "keep", "secret", "victim", "sub/x"]) {
    expect(readFileSync(join(outside, name), "utf8")).toBe("OUTSIDE");
  }
}

async function attack(
  root: RootHandle,
  isRunning: (count: number) => boolean,
): Promise<{ done: number; refused: number }> {
  let done = 0;
  let refused = 0;
  for (let round = 0; isRunning(done + refused); round += 1) {
    for (const operation of operationsOf(root, round)) {
      try {
        await operation();
        done += 1;
      } catch (error) {
        if (!isFault(error)) throw error;
        refused += 1;
      }
    }
    if (round % 8 === 0) await new Promise((resolve) => void setImmediate(resolve));
  }
  return { done, refused };
}

function operationsOf(root: RootHandle, round: number): readonly (() => Promise<void>)[] {
  const name = `d/w${round % 50}`;
  return [
    async () => requireInside(root.readSmall(p("d/secret"), { maxBytes: 100 }).content),
    async () => {
      await using file = await root.openFile(p("d/f0"));
      const buffer = Buffer.alloc(7);
      requireInside(buffer.subarray(0, await file.read(buffer, 0)));
    },
    async () => {
      const { entries } = await root.list(p("d"));
      expect(entries.map((entry) => entry.path)).not.toContain("d/canary");
    },
    async () => {
      for await (const batch of root.walk(p("d"), { contentUpToBytes: 100 })) {
        for (const item of batch) if ("content" in item && item.content) requireInside(item.content);
      }
    },
    async () => {
      await using staged = await root.stageWrite(p(name));
      await staged.write(Buffer.from("inside"));
      await staged.commit({ precondition: { kind: round % 2 === 0 ? "any" : "absent" } });
    },
    async () => void (await root.remove(p(name))),
    async () => void (await root.remove(p("d/canary"))),
    async () => void (await root.remove(p("d/victim"), { recursive: true })),
    async () => {
      await root.makeFolder(p("d/made/deep"), { parents: true });
      await root.remove(p("d/made"), { recursive: true });
    },
    async () => void (await root.move(p("d/keep"), p("d/moved"))),
  ];
}

function requireInside(content: Uint8Array): void {
  if (Buffer.from(content).includes("OUTSIDE")) throw new Error("a byte from outside was read");
}
