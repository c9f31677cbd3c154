import { parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import type { RootHandle } from "../../shared/root/root-handle.ts";

const p = parseWorkspacePath;

/** One try: what it saw of contents and names, if anything. */
export type Attempt = () => Promise<Buffer | void>;

/** Every kind of operation on what lies below `d`, once; what is in files outside is told by its text. */
export function attackCases(root: RootHandle, round: number): readonly (readonly [string, Attempt])[] {
  return [...readCases(root), ...changeCases(root, round)];
}

function readCases(root: RootHandle): readonly (readonly [string, Attempt])[] {
  return [
    ["read a small file", async () => root.readSmall(p("d/secret"), { maxBytes: 100 }).content],
    [
      "open and read",
      async () => {
        await using file = await root.openFile(p("d/f0"));
        const buffer = Buffer.alloc(7);
        return buffer.subarray(0, await file.read(buffer, 0));
      },
    ],
    [
      "list",
      async () => {
        const { entries } = await root.list(p("d"));
        // Only the folder outside has one of this name.
        return Buffer.from(entries.some((entry) => entry.path === "d/canary") ? "OUTSIDE" : "");
      },
    ],
    [
      "walk",
      async () => {
        const seen: Buffer[] = [];
        for await (const batch of root.walk(p("d"), { contentUpToBytes: 100 })) {
          for (const item of batch)
            if ("content" in item && item.content) seen.push(Buffer.from(item.content));
        }
        return Buffer.concat(seen);
      },
    ],
  ];
}

function changeCases(root: RootHandle, round: number): readonly (readonly [string, Attempt])[] {
  const name = p(`d/w${round % 50}`);
  return [
    [
      "write",
      async () => {
        await using staged = await root.stageWrite(name);
        await staged.write(Buffer.from("inside"));
        await staged.commit({ precondition: { kind: round % 2 === 0 ? "any" : "absent" } });
      },
    ],
    ["remove", async () => void (await root.remove(name))],
    ["remove what is outside only", async () => void (await root.remove(p("d/canary")))],
    ["remove recursively", async () => void (await root.remove(p("d/victim"), { recursive: true }))],
    [
      "make folders and remove them",
      async () => {
        await root.makeFolder(p("d/made/deep"), { parents: true });
        await root.remove(p("d/made"), { recursive: true });
      },
    ],
    ["move", async () => void (await root.move(p("d/keep"), p("d/moved")))],
  ];
}
