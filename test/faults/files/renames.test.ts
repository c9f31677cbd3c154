import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect } from "vitest";
import {
  FilesMoveRequestSchema,
  WritePrecondition,
  type FilesWriteTreeResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { ResolveEvent } from "../../../shared/root/root-handle.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { readTree, treeMessages, write } from "../../scenarios/files-node/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { callContext, openTempExports, type TempExports } from "../../unit/workspace/temp-exports.ts";
import { canMount, runProgram } from "./tmpfs.ts";

/** Refuses the rename of some files: so often, with that errno. */
class Refusals {
  readonly #left = new Map<string, { count: number; readonly errno: string }>();

  refuse(path: string, errno: string, count: number): void {
    this.#left.set(path, { count, errno });
  }

  /** As the rename itself would fail. */
  readonly beforePublish = ({ path }: ResolveEvent): void => {
    const left = this.#left.get(path);
    if (!left || left.count === 0) return;
    left.count -= 1;
    throw Object.assign(new Error("refused"), { code: left.errno });
  };
}

const large = "large".repeat(100_000);
const names = ["a", "stubborn", "three", "z"];

function fillRetried(dir: string): void {
  for (const size of ["small", "large"]) {
    for (const folder of ["from", "to"]) mkdirSync(join(dir, folder, size), { recursive: true });
    for (const name of names) {
      writeFileSync(join(dir, "from", size, name), size === "small" ? `new ${name}` : `${large}${name}`);
      writeFileSync(join(dir, "to", size, name), "old");
    }
  }
}

proves(
  "files.rename-retried",
  "a rename that is refused for the moment is tried again, and one that is refused for good is that file's alone",
  async () => {
    const refusals = new Refusals();
    await using temp = await openTempExports(fillRetried, {
      hooks: { beforePublish: refusals.beforePublish },
    });
    for (const [errno, size] of [
      ["EPERM", "small"],
      ["EBUSY", "large"],
    ] as const) {
      writeFileSync(join(temp.dir, "alone"), "old");
      refusals.refuse("alone", errno, 3);
      await write(temp.files, "alone", "new");
      expect(readFileSync(join(temp.dir, "alone"), "utf8")).toBe("new");
      refusals.refuse("alone", errno, Infinity);
      expect(await faultOf(write(temp.files, "alone", "newer"))).toMatchObject({
        code: "IO_ERROR",
        details: { errno, path: "alone" },
      });
      expect(readFileSync(join(temp.dir, "alone"), "utf8")).toBe("new");

      const to = join(temp.dir, "to", size);
      refusals.refuse(`to/${size}/three`, errno, 3);
      refusals.refuse(`to/${size}/stubborn`, errno, Infinity);
      const messages = await readTree(temp.files, `from/${size}`);
      const { problems } = (await temp.files.writeTree(
        treeMessages(`to/${size}`, messages, WritePrecondition.ANY),
        callContext(),
      )) as FilesWriteTreeResponse;
      const faults = problems.map(({ path, fault }) => [path, fault && fromWireFault(fault)]);
      expect(faults).toMatchObject([["stubborn", { code: "IO_ERROR", details: { errno } }]]);
      for (const name of names) {
        const source = readFileSync(join(temp.dir, "from", size, name), "utf8");
        expect(readFileSync(join(to, name), "utf8")).toBe(name === "stubborn" ? "old" : source);
      }
      expect(readdirSync(to).toSorted()).toEqual(names);
    }
  },
);

/** A workspace that holds a second file system, `disk`, and what swaps an entry at the last moment. */
async function openTwoDisks(): Promise<
  { readonly temp: TempExports; swap(work: () => void): void } & AsyncDisposable
> {
  await using stack = new AsyncDisposableStack();
  let swap: (() => void) | undefined;
  const temp = stack.use(
    await openTempExports((dir) => mkdirSync(join(dir, "disk")), {
      settings: { allowHardLinks: true },
      hooks: {
        // The copy is about to get its name.
        afterResolve: ({ operation }) => {
          if (operation !== "commit" && operation !== "make-link") return;
          swap?.();
          swap = undefined;
        },
      },
    }),
  );
  await runProgram("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", join(temp.dir, "disk")]);
  stack.defer(async () => void (await runProgram("umount", ["--lazy", join(temp.dir, "disk")])));
  const owned = stack.move();
  return {
    temp,
    swap: (work) => void (swap = work),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

proves(
  "files.move-across-devices",
  "a move to another disk takes away only what it copied",
  { skip: !canMount() },
  async () => {
    await using disks = await openTwoDisks();
    const { temp } = disks;
    const at = (path: string): string => join(temp.dir, path);
    const move = (from: string, to: string): Promise<unknown> =>
      temp.files.move(create(FilesMoveRequestSchema, { workspace: "app", from, to }), callContext());
    for (const [from, to] of [
      ["file", "disk/file"],
      ["disk/file", "back"],
    ] as const) {
      writeFileSync(at(from), large, { mode: 0o750 });
      await move(from, to);
      expect(readFileSync(at(to), "utf8")).toBe(large);
      expect(existsSync(at(from))).toBe(false);
    }
    symlinkSync("back", at("link"));
    await move("link", "disk/link");
    expect(readdirSync(at("disk"))).toEqual(["link"]);
    writeFileSync(at("file"), "file");
    expect(await faultOf(move("file", "disk/link"))).toMatchObject({ code: "ALREADY_EXISTS" });
    mkdirSync(at("folder"));
    writeFileSync(at("folder/inside"), "inside");
    expect(await faultOf(move("folder", "disk/folder"))).toMatchObject({
      code: "IO_ERROR",
      details: { errno: "EXDEV" },
      hint: expect.stringMatching(/\S/) as unknown,
    });
    expect(readFileSync(at("folder/inside"), "utf8")).toBe("inside");
    expect(readdirSync(at("disk"))).toEqual(["link"]);

    const beside = at("beside");
    const others: Readonly<Record<string, () => void>> = {
      file: () => writeFileSync(beside, "another"),
      link: () => symlinkSync("../outside/secret", beside),
      folder: () => mkdirSync(beside),
      name: () => linkSync(at("back"), beside),
    };
    for (const [kind, make] of Object.entries(others)) {
      for (const what of ["file", "link"]) {
        const [from, to] = [`${what}-${kind}`, `disk/${what}-${kind}`];
        if (what === "file") writeFileSync(at(from), "copied");
        else symlinkSync("back", at(from));
        disks.swap(() => {
          make();
          unlinkSync(at(from));
          renameSync(beside, at(from));
        });
        const fault = await faultOf(move(from, to));
        expect(fault).toMatchObject({ code: "PATH_CHANGED", details: { from, to } });
        expect([fault.message.includes(from), fault.message.includes(to)]).toEqual([true, true]);
        expect(readdirSync(temp.dir)).toContain(from);
        if (what === "file") expect(readFileSync(at(to), "utf8")).toBe("copied");
      }
    }
    writeFileSync(at("edited"), "copied");
    disks.swap(() => writeFileSync(at("edited"), "edited"));
    expect(await faultOf(move("edited", "disk/edited"))).toMatchObject({ code: "PATH_CHANGED" });
    expect(readFileSync(at("edited"), "utf8")).toBe("edited");
    expect(readFileSync(join(temp.outside, "secret"), "utf8")).toBe("OUTSIDE");
  },
);
