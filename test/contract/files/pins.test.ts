import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  FileOperation,
  Files,
  type FilesPreflightResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { openTempExports } from "../../unit/workspace/temp-exports.ts";
import { createDirectClient } from "./direct-client.ts";

const workspace = "app";

interface Pinned {
  readonly canonicalPath: string;
  readonly identity: string;
}

function pinOf({ source, identity }: FilesPreflightResponse): Pinned {
  return { canonicalPath: source?.canonicalPath ?? "", identity };
}

function write(client: Client<typeof Files>, path: string, pin: Pinned): Promise<unknown> {
  return writeWhole(client, { workspace, path, content: "new", pin });
}

test("a preflight tells what an operation would act on, and does nothing", async () => {
  await using temp = await openTempExports(
    (dir) => {
      mkdirSync(join(dir, "real/deep"), { recursive: true });
      writeFileSync(join(dir, "real/file"), "old");
      symlinkSync("real", join(dir, "alias"));
    },
    { settings: { followSymlinks: true, remove: false } },
  );
  const client = createDirectClient(Files, temp.files);
  const look = (
    path: string,
    operation: FileOperation,
    countBelow = false,
  ): Promise<FilesPreflightResponse> => client.preflight({ workspace, path, operation, countBelow });
  const file = await look("alias/file", FileOperation.READ);
  expect(file).toMatchObject({ entry: { sizeBytes: 3n }, source: { canonicalPath: "real/file" } });
  expect(file.identity).toBe((await look("real/file", FileOperation.WRITE)).identity);
  const absent = await look("alias/a/b", FileOperation.WRITE);
  expect(absent.entry).toBeUndefined();
  expect(absent.source?.canonicalPath).toBe("real/a/b");
  expect((await look("real", FileOperation.READ, true)).below).toBe(2n);
  expect(await faultOf(look("real/file", FileOperation.REMOVE))).toMatchObject({
    code: "POLICY_DENIED",
    details: { rule: "remove_off", side: "node" },
  });
  expect(await faultOf(look("real/file", FileOperation.UNSPECIFIED))).toMatchObject({
    code: "INVALID_ARGUMENT",
  });
});

test("what is pinned is done on exactly what was seen, or not at all", async () => {
  await using temp = await openTempExports((dir) => {
    mkdirSync(join(dir, "d/sub"), { recursive: true });
    writeFileSync(join(dir, "d/file"), "old");
  });
  const { dir } = temp;
  const client = createDirectClient(Files, temp.files);
  const pin = async (path: string, operation: FileOperation): Promise<Pinned> =>
    pinOf(await client.preflight({ workspace, path, operation }));
  const pins = {
    read: await pin("d/file", FileOperation.READ),
    folder: await pin("d", FileOperation.READ),
    write: await pin("d/file", FileOperation.WRITE),
    fresh: await pin("d/fresh", FileOperation.WRITE),
    remove: await pin("d/file", FileOperation.REMOVE),
    from: await pin("d/file", FileOperation.MOVE),
    to: await pin("d/moved", FileOperation.MOVE),
    make: await pin("d/made", FileOperation.MAKE_FOLDER),
  };
  const all: Readonly<Record<string, () => Promise<unknown>>> = {
    stat: () => client.stat({ workspace, path: "d/file", pin: pins.read }),
    read: () => Array.fromAsync(client.read({ workspace, path: "d/file", pin: pins.read })),
    list: () => client.list({ workspace, path: "d", pin: pins.folder }),
    "list below": () => client.list({ workspace, path: "d", recursive: true, pin: pins.folder }),
    tree: () => Array.fromAsync(client.readTree({ workspace, path: "d", pin: pins.folder })),
    write: () => write(client, "d/file", pins.write),
    "write anew": () => write(client, "d/fresh", pins.fresh),
    remove: () => client.remove({ workspace, path: "d/file", pin: pins.remove }),
    move: () => client.move({ workspace, from: "d/file", to: "d/moved", fromPin: pins.from, toPin: pins.to }),
    make: () => client.makeFolder({ workspace, path: "d/made", pin: pins.make }),
  };
  // Another folder with another file of the same names stands there now.
  renameSync(join(dir, "d"), join(dir, "elsewhere"));
  mkdirSync(join(dir, "d/sub"), { recursive: true });
  writeFileSync(join(dir, "d/file"), "other");
  for (const [name, run] of Object.entries(all)) {
    expect([name, (await faultOf(run())).code]).toEqual([name, "PATH_CHANGED"]);
  }
  expect(readFileSync(join(dir, "d/file"), "utf8")).toBe("other");
  rmSync(join(dir, "d"), { recursive: true });
  renameSync(join(dir, "elsewhere"), join(dir, "d"));
  for (const name of ["stat", "read", "list", "list below", "tree", "write anew", "make"]) {
    await all[name]?.();
  }
  // What stands where nothing stood is something else.
  expect((await faultOf(write(client, "d/fresh", pins.fresh))).code).toBe("PATH_CHANGED");
  await all["move"]?.();
  expect(readFileSync(join(dir, "d/moved"), "utf8")).toBe("old");
});
