import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseWorkspacePath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import { openRoot, ownContainment } from "../../../shared/root/open-root.ts";
import type { Containment, RootHandle, RootOptions } from "../../../shared/root/root-handle.ts";
import { isStagedName } from "../../../shared/root/staged-name.ts";
import type { WalkItem, WalkOptions } from "../../../shared/root/walk-options.ts";

/** A root in a folder of its own, with a folder outside beside it; both are gone at the end. */
export interface TempRoot extends AsyncDisposable {
  readonly root: RootHandle;
  /** Absolute path of the exported folder. */
  readonly dir: string;
  /** Absolute path of a folder beside it, which nothing may reach. */
  readonly outside: string;
}

let asked: Containment | undefined;

/** Has every root from now on opened with this containment, where nothing else is asked for. */
export function openAllWith(containment: Containment): void {
  asked = containment;
}

/** Whether roots are opened so. */
export function isOpenedWith(containment: Containment): boolean {
  return (asked ?? ownContainment) === containment;
}

/** What lies in a folder that was moved out of a root: what was being written stays in it where it is held by its name. */
export function foundIn(moved: string): readonly string[] {
  const names = readdirSync(moved);
  return isOpenedWith("kernel") ? names : names.filter((name) => !isStagedName(name));
}

/** Opens a root over a new folder that `fill` has filled. */
export async function openTempRoot(
  fill: (dir: string, outside: string) => void = () => undefined,
  options: RootOptions = {},
): Promise<TempRoot> {
  const base = mkdtempSync(join(tmpdir(), "fairlead-root-"));
  const dir = join(base, "root");
  const outside = join(base, "outside");
  for (const folder of [dir, outside]) mkdirSync(folder);
  writeFileSync(join(outside, "secret"), "outside secret");
  fill(dir, outside);
  const root = await openRoot(dir, { ...(asked ? { containment: asked } : {}), ...options });
  return {
    root,
    dir,
    outside,
    [Symbol.asyncDispose]: async () => {
      await root[Symbol.asyncDispose]();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

/** A path of the workspace. */
export const p = (text: string): WorkspacePath => parseWorkspacePath(text);

/** All content of a file. */
export async function readAll(root: RootHandle, path: string): Promise<string> {
  await using file = await root.openFile(p(path));
  const buffer = Buffer.alloc(file.entry.sizeBytes + 16);
  return buffer.toString("utf8", 0, await file.read(buffer, 0));
}

/** Writes a whole file through the stage. */
export async function writeAll(root: RootHandle, path: string, content: string): Promise<void> {
  await using staged = await root.stageWrite(p(path));
  await staged.write(Buffer.from(content));
  await staged.commit({ precondition: { kind: "any" } });
}

/** Everything a walk met; contents copied. */
export async function walkAll(
  root: RootHandle,
  path: string,
  options: WalkOptions = {},
): Promise<WalkItem[]> {
  const items: WalkItem[] = [];
  for await (const batch of root.walk(p(path), options)) {
    for (const item of batch) {
      const content = "content" in item && item.content ? { content: Buffer.from(item.content) } : {};
      items.push({ ...item, ...content });
    }
  }
  return items;
}

/** `path` of an entry, `path: CODE` of a problem. */
export function summary(items: readonly WalkItem[]): string[] {
  return items.map((item) =>
    item.kind === "entry" ? item.entry.path : `${item.problem.path}: ${item.problem.fault.code}`,
  );
}
