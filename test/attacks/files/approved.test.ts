import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import type { Fault } from "../../../shared/fault/fault.ts";
import type { ResolveEvent } from "../../../shared/root/root-handle.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { writeWhole } from "../../support/write-whole.ts";

const workspace = "devbox:/app";
const asking = "files:\n  ask: { read: [], write: [], ask: on-miss }\n";

function fill(dir: string): void {
  mkdirSync(join(dir, "d"));
  mkdirSync(join(dir, "other"));
  for (const folder of ["d", "other"]) writeFileSync(join(dir, folder, "file"), `of ${folder}`);
}

function write({ client }: FilesKit, path: string): Promise<unknown> {
  return writeWhole(client, { workspace, path, content: "written" });
}

const operations: Readonly<Record<string, (kit: FilesKit) => Promise<unknown>>> = {
  stat: (kit) => kit.client.stat({ workspace, path: "d/file" }),
  read: (kit) => Array.fromAsync(kit.client.read({ workspace, path: "d/file" })),
  list: (kit) => kit.client.list({ workspace, path: "d" }),
  tree: (kit) => Array.fromAsync(kit.client.readTree({ workspace, path: "d" })),
  remove: (kit) => kit.client.remove({ workspace, path: "d/file" }),
  "remove all": (kit) => kit.client.remove({ workspace, path: "d", recursive: true }),
  move: (kit) => kit.client.move({ workspace, from: "d/file", to: "d/moved" }),
  mkdir: (kit) => kit.client.makeFolder({ workspace, path: "d/made" }),
  write: (kit) => write(kit, "d/file"),
  "write anew": (kit) => write(kit, "d/new"),
};

/** Every file below, with its content. */
function contents(dir: string): Readonly<Record<string, string>> {
  const found = readdirSync(dir, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    found
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(dir.length + 1), readFileSync(path, "utf8")]),
  );
}

/** What is put in the place of what was allowed. */
const swaps: Readonly<Record<string, (dir: string) => void>> = {
  "a link to another folder": (dir) => {
    renameSync(join(dir, "d"), join(dir, "was"));
    symlinkSync("other", join(dir, "d"));
  },
  "another folder": (dir) => {
    renameSync(join(dir, "d"), join(dir, "was"));
    mkdirSync(join(dir, "d"));
    writeFileSync(join(dir, "d/file"), "of another");
  },
};

/** The operations on a file, with the step of the node between its look and its use. */
const onFiles = [
  ["stat", "stat"],
  ["read", "open"],
  ["remove", "remove"],
  ["move", "move"],
  ["write", "commit"],
] as const;

const swapFile = (dir: string): void => {
  unlinkSync(join(dir, "d/file"));
  writeFileSync(join(dir, "d/file"), "of another");
};

interface Attack {
  /** Of `operations`. */
  readonly name: string;
  readonly swap: (dir: string) => void;
  /** While a person is asked, or once the operation of the node has resolved its path. */
  readonly when: "asked" | ResolveEvent["operation"];
}

async function attack({ name, swap, when }: Attack): Promise<void> {
  let dir = "";
  let swapped: ReturnType<typeof contents> | undefined;
  let isArmed = false;
  const swapNow = (): void => {
    swap(dir);
    // What is being written at that moment is gone at the end.
    swapped = Object.fromEntries(
      Object.entries(contents(dir)).filter(([, content]) => content !== "written"),
    );
  };
  const afterResolve = ({ operation }: ResolveEvent): void => {
    if (!isArmed || operation !== when) return;
    isArmed = false;
    swapNow();
  };
  const settings = { followSymlinks: true };
  await using kit = await openFilesKit({ fill, policy: asking, settings, hooks: { afterResolve } });
  ({ dir } = kit);
  const ended = faultOf((operations[name]?.(kit) ?? Promise.resolve()).then(() => name));
  const first = await kit.waiting();
  expect(first.detail).toContain('"canonicalPath": "d');
  if (when === "asked") swapNow();
  else isArmed = true;
  await kit.approvals.decide(first.id, { allow: true, by: "local" });
  // What stands there now is asked about, by an approval of its own.
  const second = await kit.waiting();
  expect([name, second.digest]).not.toEqual([name, first.digest]);
  const isLink = swap === swaps["a link to another folder"];
  // A link that would be removed is the target itself; else it is what the link leads to.
  const target = name === "remove all" ? '"stands": "link"' : '"canonicalPath": "other';
  expect(second.detail).toContain(isLink ? target : '"canonicalPath": "d');
  await kit.approvals.decide(second.id, { allow: false, by: "local" });
  // What was sent already is not asked about again within the call: its question stays open for a repeat.
  const code = name.startsWith("write") ? "APPROVAL_REQUIRED" : "APPROVAL_DENIED";
  expect([name, await ended]).toMatchObject([name, { code, details: { approvalId: second.id } }]);
  expect([name, contents(dir)]).toEqual([name, swapped]);
}

describe("what was allowed and then swapped", () => {
  proves(
    "files.approved-then-swapped",
    "is not what is acted on: what stands there now is asked about anew",
    { timeout: 120_000 },
    async () => {
      for (const name of Object.keys(operations)) {
        for (const swap of Object.values(swaps)) await attack({ name, swap, when: "asked" });
      }
      for (const [name, operation] of onFiles) {
        await attack({ name, swap: swapFile, when: "asked" });
        await attack({ name, swap: swapFile, when: operation });
      }
    },
  );
});

function approvalIdOf({ details }: Fault): string {
  const { approvalId } = details;
  return typeof approvalId === "string" ? approvalId : "";
}

proves(
  "files.policy-tightened-before-effect",
  "a deny that comes after the approval and before the effect wins",
  { timeout: 120_000 },
  async () => {
    await using kit = await openFilesKit({ fill, policy: asking });
    const before = contents(kit.dir);
    for (const [name, run] of Object.entries(operations)) {
      const ended = faultOf(run(kit));
      const { id } = await kit.waiting();
      await kit.policy.apply(`${asking}  shut: { deny: [d] }\n`);
      await kit.approvals.decide(id, { allow: true, by: "local" });
      expect([name, await ended]).toMatchObject([
        name,
        { code: "POLICY_DENIED", details: { rule: "files.shut deny d", side: "gateway" } },
      ]);
      expect(contents(kit.dir)).toEqual(before);
      await kit.policy.apply(asking);
      // Allowed beforehand for a repeat of the call, and denied by the time it comes.
      const hasty = { ...kit, client: kit.hasty };
      const required = await faultOf(run(hasty));
      expect(required.code).toBe("APPROVAL_REQUIRED");
      await kit.approvals.decide(approvalIdOf(required), { allow: true, by: "local" });
      await kit.policy.apply(`${asking}  shut: { deny: [d] }\n`);
      expect([name, (await faultOf(run(hasty))).code]).toEqual([name, "POLICY_DENIED"]);
      expect(contents(kit.dir)).toEqual(before);
      await kit.policy.apply(asking);
    }
  },
);
