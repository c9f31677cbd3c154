import { link, mkdir, readdir, readFile, rename, stat, symlink, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { parseWorkspacePath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import type { BatchOutcome } from "../../../shared/root/root-handle.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const any = { precondition: { kind: "any" }, mode: 0o644 } as const;
const at = (path: string): WorkspacePath => parseWorkspacePath(path);
const bytes = (text: string): Uint8Array => Buffer.from(text);

function codeOf(work: () => void): string {
  try {
    work();
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
  return "none";
}

const shown = (outcomes: readonly BatchOutcome[]): readonly string[] =>
  outcomes.map(({ path, fault }) => `${path} ${fault?.code ?? "stored"}`);

test("files have their names only once they are published, with mode and time", async () => {
  await using folder = await makeTempFolder();
  await mkdir(folder.join("a"));
  await writeFile(folder.join("a/old"), "old");
  await using root = await openRoot(folder.path);
  await using batch = root.batchWrite();
  for (let index = 0; index < 40; index += 1) {
    batch.add(at(`a/new-${index}`), bytes(`${index}`), {
      ...any,
      mode: 0o751,
      mtimeNs: 1_700_000_000_123_456_000n,
    });
  }
  batch.add(at("a/old"), bytes("replaced"), any);
  batch.add(at("top"), bytes("top"), any);
  expect((await root.list(at("a"))).entries.map((entry) => entry.path)).toEqual(["a/old"]);
  expect(await readFile(folder.join("a/old"), "utf8")).toBe("old");
  const outcomes = await batch.publish();
  expect(outcomes.every(({ fault }) => fault === undefined)).toBe(true);
  expect(outcomes).toHaveLength(42);
  expect(await readFile(folder.join("a/old"), "utf8")).toBe("replaced");
  const { mode, mtimeNs } = await stat(folder.join("a/new-7"), { bigint: true });
  expect([mode & 0o777n, mtimeNs / 1000n]).toEqual([0o751n, 1_700_000_000_123_456n]);
  await batch.sync();
  expect((await readdir(folder.join("a"))).filter((name) => name.startsWith("."))).toEqual([]);
});

test("each file is refused for itself, and the rest is stored", async () => {
  await using folder = await makeTempFolder();
  await using outside = await makeTempFolder();
  await writeFile(outside.join("target"), "outside");
  await writeFile(folder.join("taken"), "taken");
  await writeFile(folder.join("twice"), "twice");
  await link(folder.join("twice"), folder.join("twice-too"));
  await symlink(outside.join("target"), folder.join("linked"));
  await symlink(outside.path, folder.join("out"));
  await mkdir(folder.join("is-folder"));
  await using root = await openRoot(folder.path);
  await using batch = root.batchWrite();
  expect(codeOf(() => batch.add(at("out/x"), bytes("x"), any))).toBe("SYMLINK_REFUSED");
  expect(codeOf(() => batch.add(at("missing/x"), bytes("x"), any))).toBe("NOT_FOUND");
  expect(codeOf(() => batch.add(at("large"), bytes("large"), { ...any, maxBytes: 4 }))).toBe("TOO_LARGE");
  const absent = { ...any, precondition: { kind: "absent" } } as const;
  expect(codeOf(() => batch.add(at("taken"), bytes("x"), absent))).toBe("ALREADY_EXISTS");
  batch.add(at("taken-meanwhile"), bytes("x"), absent);
  await writeFile(folder.join("taken-meanwhile"), "taken");
  for (const name of ["twice", "linked", "is-folder", "fine"]) batch.add(at(name), bytes("x"), any);
  expect(shown(await batch.publish())).toEqual([
    "taken-meanwhile ALREADY_EXISTS",
    "twice HARDLINK_REFUSED",
    "linked SYMLINK_REFUSED",
    "is-folder NOT_A_FILE",
    "fine stored",
  ]);
  expect(await readFile(outside.join("target"), "utf8")).toBe("outside");
  expect(await outside.entries()).toEqual(["target"]);
  expect((await readdir(folder.path)).filter((name) => name.startsWith("."))).toEqual([]);
  expect(await readFile(folder.join("taken"), "utf8")).toBe("taken");
  expect(await readFile(folder.join("taken-meanwhile"), "utf8")).toBe("taken");
});

test("a folder that was swapped before publication is not written to", async () => {
  await using folder = await makeTempFolder();
  await using outside = await makeTempFolder();
  await mkdir(folder.join("parent"));
  await using root = await openRoot(folder.path);
  const swaps = [() => symlink(outside.path, folder.join("parent")), () => mkdir(folder.join("parent"))];
  for (const [round, swap] of swaps.entries()) {
    await using batch = root.batchWrite();
    batch.add(at("parent/x"), bytes("x"), any);
    await rename(folder.join("parent"), folder.join(`first-${round}`));
    await swap();
    expect((await batch.publish()).map(({ fault }) => fault?.code)).not.toContain(undefined);
    expect(await outside.entries()).toEqual([]);
    await rename(folder.join("parent"), folder.join(`second-${round}`));
    await mkdir(folder.join("parent"));
  }
});

test("a batch that is not published leaves nothing", async () => {
  await using folder = await makeTempFolder();
  await using root = await openRoot(folder.path);
  {
    await using batch = root.batchWrite();
    batch.add(at("x"), bytes("x"), any);
    batch.add(at("y"), bytes("y"), any);
    expect(batch.count).toBe(2);
  }
  expect(await folder.entries()).toEqual([]);
});

test("where nobody looks yet files have their names at once, each only once", async () => {
  await using folder = await makeTempFolder();
  await using root = await openRoot(folder.path);
  await using batch = root.batchWrite({ isUnseen: true });
  batch.add(at("x"), bytes("first"), any);
  expect(codeOf(() => batch.add(at("x"), bytes("second"), any))).toBe("ALREADY_EXISTS");
  expect(shown(await batch.publish())).toEqual(["x stored"]);
  expect(await readFile(folder.join("x"), "utf8")).toBe("first");
});
