import { lstat, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { rootPath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import { writeWhole } from "../../support/write-whole.ts";

/** What is at a path that is written: what stood there before, what was to come, or some of each where a tree may be so. */
export type Found = "old" | "new" | "between";

/** An operation that changes a workspace, in a folder of its own. */
export interface WritingOperation {
  readonly name: string;
  /** Makes what the operation finds, in the folder at `disk`. */
  prepare(disk: string): Promise<void>;
  /** Runs it once; `path` is the same folder below the workspace. */
  run(client: Client<typeof Files>, path: string): Promise<unknown>;
  /** Looks at what is there; fails where an entry is neither the old nor the new one. */
  look(disk: string): Promise<Found>;
}

const workspace = "devbox:/app";
const small = 80;
const nameOf = (at: number): string => `d${at % 4}/f${at}`;
const oldOf = (name: string): Buffer => Buffer.alloc(3_000, `old ${name} `);
const newOf = (name: string): Buffer => Buffer.alloc(3_500, `new ${name} `);
const large = { old: Buffer.alloc(1_500_000, "old large "), new: Buffer.alloc(1_700_000, "new large ") };

/** A folder with the tree that is put: small files, one that travels in chunks, an empty folder. */
export async function makeNewTree(disk: string): Promise<void> {
  await makeTree(disk, newOf, large.new);
  await mkdir(join(disk, "empty"));
}

async function makeTree(disk: string, content: (name: string) => Buffer, big: Buffer): Promise<void> {
  for (let at = 0; at < 4; at += 1) await mkdir(join(disk, `d${at}`), { recursive: true });
  for (let at = 0; at < small; at += 1) await writeFile(join(disk, nameOf(at)), content(nameOf(at)));
  await writeFile(join(disk, "large"), big);
}

/** The names of a folder; none where it is not there. */
async function namesIn(folder: string): Promise<readonly string[]> {
  return (await readdir(folder, { recursive: true }).catch(() => [])).filter((name) => !isStaged(name));
}

function isStaged(path: string): boolean {
  return path.split("/").some((name) => name.startsWith(".fairlead-"));
}

/** What stands at a path: nothing is `undefined`. */
async function contentAt(path: string): Promise<Buffer | undefined> {
  return await readFile(path).catch(() => undefined);
}

function which(
  found: Buffer | undefined,
  states: Readonly<Record<"old" | "new", Buffer | undefined>>,
): Found {
  for (const state of ["old", "new"] as const) {
    const wanted = states[state];
    if (found === undefined ? wanted === undefined : wanted?.equals(found) === true) return state;
  }
  throw new Error(`a file of ${found?.byteLength} bytes is neither the old nor the new one`);
}

function together(found: readonly Found[]): Found {
  const kinds = new Set(found);
  return kinds.size === 1 ? (found[0] ?? "between") : "between";
}

/** Of a tree: every file that is there is whole. */
export async function lookAtTree(disk: string, before: "absent" | "old"): Promise<Found> {
  const found: Found[] = [];
  const names = [...Array.from({ length: small }, (_, at) => nameOf(at)), "large"];
  for (const name of names) {
    const [old, fresh] = name === "large" ? [large.old, large.new] : [oldOf(name), newOf(name)];
    const states = { old: before === "old" ? old : undefined, new: fresh };
    found.push(which(await contentAt(join(disk, name)), states));
  }
  const strangers = (await namesIn(disk)).filter(
    (name) => !names.includes(name) && !/^(d[0-3]|empty)$/u.test(name),
  );
  if (strangers.length > 0) throw new Error(`there is ${strangers.join(", ")}`);
  return together(found);
}

function putTree(source: string, precondition: WritePrecondition): WritingOperation["run"] {
  return async (client, path) => {
    await using root = await openRoot(source);
    const parts = packTree({ root, path: rootPath });
    const messages = async function* () {
      yield { header: { workspace, path: `${path}/tree`, precondition, keepEqual: true } };
      for await (const { problems: _, ...part } of parts) yield part;
    };
    return await client.writeTree(messages());
  };
}

const fileOld = Buffer.alloc(300_000, "old ");
const fileNew = "new ".repeat(80_000);

/** Every operation that changes something; `source` holds the tree that is put. */
export function writingOperations(source: string): readonly WritingOperation[] {
  return [...writes(source), ...removals(), ...moves()];
}

function writes(source: string): readonly WritingOperation[] {
  return [
    {
      name: "write",
      prepare: (disk) => writeFile(join(disk, "file"), fileOld),
      run: (client, path) => writeWhole(client, { workspace, path: `${path}/file`, content: fileNew }),
      look: async (disk) =>
        which(await contentAt(join(disk, "file")), { old: fileOld, new: Buffer.from(fileNew) }),
    },
    {
      name: "write with missing parents",
      prepare: async () => undefined,
      run: (client, path) => writeWhole(client, { workspace, path: `${path}/a/b/file`, content: fileNew }),
      look: async (disk) =>
        which(await contentAt(join(disk, "a/b/file")), { old: undefined, new: Buffer.from(fileNew) }),
    },
    {
      name: "put a tree over another",
      prepare: (disk) => makeTree(join(disk, "tree"), oldOf, large.old),
      run: putTree(source, WritePrecondition.ANY),
      look: (disk) => lookAtTree(join(disk, "tree"), "old"),
    },
    {
      name: "put a tree",
      prepare: async () => undefined,
      run: putTree(source, WritePrecondition.ABSENT),
      look: (disk) => lookAtTree(join(disk, "tree"), "absent"),
    },
  ];
}

function removals(): readonly WritingOperation[] {
  return [
    {
      name: "remove a folder with all that is in it",
      prepare: (disk) => makeTree(join(disk, "tree"), oldOf, large.old),
      run: (client, path) => client.remove({ workspace, path: `${path}/tree`, recursive: true }),
      look: async (disk) => {
        const left = await namesIn(join(disk, "tree"));
        for (const name of left) {
          const content = await contentAt(join(disk, "tree", name));
          if (content && !content.equals(name === "large" ? large.old : oldOf(name)))
            throw new Error(`${name} is another than it was`);
        }
        if (left.length === 0 && (await isThere(join(disk, "tree"))) === false) return "new";
        return left.length === small + 5 ? "old" : "between";
      },
    },
    {
      name: "remove a file",
      prepare: (disk) => writeFile(join(disk, "file"), fileOld),
      run: (client, path) => client.remove({ workspace, path: `${path}/file` }),
      look: async (disk) => which(await contentAt(join(disk, "file")), { old: fileOld, new: undefined }),
    },
  ];
}

function moves(): readonly WritingOperation[] {
  return [
    {
      name: "move a file",
      prepare: (disk) => writeFile(join(disk, "from"), fileOld),
      run: (client, path) => client.move({ workspace, from: `${path}/from`, to: `${path}/to` }),
      look: (disk) =>
        lookAtMove(disk, async (at) => which(await contentAt(at), { old: fileOld, new: undefined })),
    },
    {
      name: "move a folder",
      prepare: (disk) => makeTree(join(disk, "from"), oldOf, large.old),
      run: (client, path) => client.move({ workspace, from: `${path}/from`, to: `${path}/to` }),
      look: (disk) =>
        lookAtMove(disk, async (at) => {
          const count = (await namesIn(at)).length;
          if (count > 0 && count !== small + 5) throw new Error("a folder was moved in part");
          return count > 0 ? "old" : "new";
        }),
    },
    {
      name: "make a folder",
      prepare: async () => undefined,
      run: (client, path) => client.makeFolder({ workspace, path: `${path}/folder` }),
      look: async (disk) => ((await isThere(join(disk, "folder"))) ? "new" : "old"),
    },
  ];
}

/** Exactly one of the two names has it: `look` says `old` of what is there, and `new` of what is not. */
async function lookAtMove(disk: string, look: (at: string) => Promise<Found>): Promise<Found> {
  const [from, to] = [await look(join(disk, "from")), await look(join(disk, "to"))];
  if (from === to) throw new Error(`it is ${from === "old" ? "at both names" : "at neither name"}`);
  return from;
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}
