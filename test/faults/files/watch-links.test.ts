import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import {
  FilesWatchKind,
  FilesWatchRequestSchema,
  type FilesWatchResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";
import { proves } from "../../support/proves.ts";
import { followWatch } from "../../unit/workspace/follow-watch.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";
import { callContext, openTempExports, type TempExports } from "../../unit/workspace/temp-exports.ts";

interface Watching extends AsyncDisposable {
  readonly events: readonly FilesWatchResponse[];
  /** The digest that was last told of a path. */
  digestOf(path: string): string | undefined;
  /** Waits for an event about this path, of those that were not waited for yet, and gives all up to it as `kind path`. */
  told(kind: FilesWatchKind, path: string): Promise<readonly string[]>;
}

const names: Readonly<Record<number, string>> = {
  [FilesWatchKind.AVAILABLE]: "available",
  [FilesWatchKind.CREATED]: "created",
  [FilesWatchKind.CHANGED]: "changed",
  [FilesWatchKind.REMOVED]: "removed",
  [FilesWatchKind.UNSPECIFIED]: "source",
};

const say = ({ kind, path, source }: FilesWatchResponse): string =>
  `${names[kind] ?? kind} ${source?.canonicalPath ?? path}`;

/** Watches a path as the node's service serves it. */
function watchPath(temp: TempExports, path: string): Watching {
  const scope = new Scope("a watch");
  const events: FilesWatchResponse[] = [];
  let taken = 0;
  scope.spawn("follow", async (signal) => {
    const request = create(FilesWatchRequestSchema, { workspace: "app", path });
    // oxlint-disable-next-line typescript/await-thenable
    for await (const event of temp.files.watch(request, callContext(signal)))
      events.push(event as FilesWatchResponse);
  });
  return {
    events,
    digestOf: (at) => events.findLast(({ path: told }) => told === at)?.entry?.digest,
    told: async (kind, at) => {
      const found = (): number =>
        events.findIndex((event, index) => index >= taken && event.kind === kind && event.path === at);
      await expect.poll(found, { timeout: 10_000 }).toBeGreaterThanOrEqual(0);
      const fresh = events.slice(taken, found() + 1);
      taken = found() + 1;
      return fresh.filter((event) => event.kind !== FilesWatchKind.SETTLED).map(say);
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}

/** Makes a link lead elsewhere in one step. */
function retarget(link: string, target: string): void {
  symlinkSync(target, `${link}.new`);
  renameSync(`${link}.new`, link);
}

proves(
  "files.watch-links",
  "links that lead nowhere are problems and no more, a followed one tells of what it leads to, and a linked root is one root",
  { timeout: 60_000 },
  async () => {
    const settings: { followSymlinks: boolean; deny: readonly string[]; dir?: string } = {
      followSymlinks: true,
      deny: ["closed/**"],
    };
    await using temp = await openTempExports(
      (dir, outside) => {
        for (const name of ["one/in", "two/in", "closed"]) mkdirSync(join(dir, name), { recursive: true });
        writeFileSync(join(dir, "one/in/file"), "first");
        writeFileSync(join(dir, "two/in/file"), "second");
        writeFileSync(join(dir, "two/other"), "other");
        writeFileSync(join(dir, "closed/file"), "closed");
        symlinkSync("nothing", join(dir, "dangling"));
        symlinkSync("round", join(dir, "loop"));
        symlinkSync("loop", join(dir, "round"));
        symlinkSync(outside, join(dir, "outside"));
        symlinkSync("closed/file", join(dir, "forbidden"));
        symlinkSync("one", join(dir, "now"));
        for (let at = 0; at < 40; at += 1) writeFileSync(join(dir, `other-${at}`), "");
        symlinkSync(dir, `${dir}.link`);
        settings.dir = `${dir}.link`;
      },
      { settings },
    );
    const at = (path: string): string => join(temp.dir, path);
    await using whole = followWatch(await temp.watch());
    await whole.seen("available");
    const { problems } = await readManifestOf(temp.manifest());
    expect(problems).toEqual({
      dangling: expect.stringContaining("leads to nothing") as string,
      forbidden: expect.stringContaining("does not let be read") as string,
      loop: expect.stringContaining("more than 40 links") as string,
      outside: expect.stringContaining("leads out of the workspace") as string,
      round: expect.stringContaining("more than 40 links") as string,
    });

    await using watching = watchPath(temp, "now");
    await watching.told(FilesWatchKind.AVAILABLE, "");
    retarget(at("now"), "two");
    expect(await watching.told(FilesWatchKind.CREATED, "two/other")).toEqual([
      "removed one/in/file",
      "removed one/in",
      "removed one",
      "source two",
      "created two",
      "created two/in",
      "created two/in/file",
      "created two/other",
    ]);
    expect(watching.digestOf("two/in/file")).toBe(digestOf("second"));
    writeFileSync(at("two/in/file"), "edited");
    writeFileSync(at("one/in/file"), "not told");
    expect(await watching.told(FilesWatchKind.CHANGED, "two/in/file")).toEqual(["changed two/in/file"]);
    expect(watching.digestOf("two/in/file")).toBe(digestOf("edited"));
    // Among many others a link is looked at by its name alone.
    await whole.settle();
    expect(whole.take().filter((event) => event.endsWith(" now"))).toEqual(["changed now"]);

    const gone = ["removed two/other", "removed two/in/file", "removed two/in", "removed two"];
    retarget(at("now"), temp.outside);
    expect(await watching.told(FilesWatchKind.REMOVED, "two")).toEqual(gone);
    retarget(at("now"), "closed");
    retarget(at("now"), "two");
    await watching.told(FilesWatchKind.CREATED, "two/other");
    retarget(at("now"), "closed");
    expect(await watching.told(FilesWatchKind.REMOVED, "two")).toEqual(gone);
    expect(JSON.stringify(watching.events.map(say))).not.toMatch(/secret|closed/);
    const cursors = watching.events.filter(({ kind }) => kind !== FilesWatchKind.UNSPECIFIED);
    const ticks = cursors.map(({ cursor }) => Number(cursor.split("-")[1]));
    for (const [index, tick] of ticks.slice(1).entries())
      expect(tick).toBeGreaterThan(ticks[index] ?? Infinity);

    await whole.settle();
    whole.take();
    for (const dir of [temp.dir, `${temp.dir}.link`]) {
      writeFileSync(join(dir, "one/in/file"), dir);
      await whole.settle();
      expect(whole.take()).toEqual(["changed one/in/file"]);
    }
    expect(watching.events[0]?.source).toMatchObject({ workspace: "app", canonicalPath: "one" });
  },
);
