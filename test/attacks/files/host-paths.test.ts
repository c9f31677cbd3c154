import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { FileOperation, Files, FilesWatchKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectClient } from "../../contract/files/direct-client.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { exportOf } from "../../unit/workspace/temp-exports.ts";

/** What everything that was answered holds, faults with their details included. */
class Answers {
  readonly texts: string[] = [];

  async take(work: Promise<unknown>): Promise<void> {
    try {
      this.#note(await work);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const { code, message, hint, details } = error;
      this.#note({ code, message, hint, details });
    }
  }

  #note(value: unknown): void {
    this.texts.push(
      JSON.stringify(value, (_, one: unknown) => {
        if (typeof one === "bigint") return String(one);
        return one instanceof Uint8Array ? "bytes" : one;
      }) ?? "",
    );
  }
}

function callsOn(
  client: Client<typeof Files>,
  path: string,
  workspace = "app",
): readonly (() => Promise<unknown>)[] {
  const place = { workspace, path };
  return [
    () => client.stat(place),
    () => client.list(place),
    () => client.list({ ...place, recursive: true }),
    () => client.preflight({ ...place, operation: FileOperation.WRITE }),
    () => client.preflight({ ...place, operation: FileOperation.READ, countBelow: true }),
    () => Array.fromAsync(client.read(place)),
    () => Array.fromAsync(client.readTree(place)),
    () => Array.fromAsync(client.manifest(place)),
    () => Array.fromAsync(client.listChunks(place)),
    () => writeWhole(client, { ...place, content: "x", ifMatch: "", mode: 0o600 }),
    () => writeWhole(client, { workspace, path: `${path}/below`, content: "x" }),
    () => client.move({ workspace, from: path, to: "elsewhere/deep/new" }),
    () => client.makeFolder(place),
    () => client.findPart({ ...place, partKey: "key" }),
    () => client.remove(place),
  ];
}

const paths = [
  "",
  "file",
  "folder",
  "fifo",
  "absolute",
  "relative",
  "dangling",
  "loop",
  "absolute/secret",
  "inside",
  "shut",
  "missing/deep",
  ".env",
  "../elsewhere/x",
  "/etc/passwd",
];

proves(
  "files.no-host-paths-leak",
  "nothing that leaves a node names its disk or what lies outside its exports",
  { timeout: 60_000 },
  async () => {
    const onDisk = Object.assign(new Error("EIO: i/o error, rename '/tmp/x' -> '/home/y'"), {
      code: "EIO",
      path: "/tmp/x",
      dest: "/home/y",
    });
    const broken = {
      beforePublish: () => {
        throw onDisk;
      },
    };
    for (const [followSymlinks, hooks] of [
      [false, {}],
      [true, {}],
      [true, broken],
    ] as const) {
      const fill = (dir: string, outside: string): void => {
        mkdirSync(join(dir, "folder/inner"), { recursive: true });
        for (const name of ["file", "folder/a", ".env"]) writeFileSync(join(dir, name), name);
        execFileSync("mkfifo", [join(dir, "fifo")]);
        symlinkSync(outside, join(dir, "absolute"));
        symlinkSync("../outside/secret", join(dir, "relative"));
        symlinkSync(join(outside, "nothing"), join(dir, "dangling"));
        symlinkSync("loop", join(dir, "loop"));
        symlinkSync(join(dir, "file"), join(dir, "inside"));
      };
      await using kit = await openFilesKit({
        fill,
        hooks,
        settings: { followSymlinks, deny: ["shut"], maxFileBytes: 1_000 },
      });
      const { temp } = kit;
      const client = createDirectClient(Files, temp.files);
      const answers = new Answers();
      await answers.take(client.listExports({}));
      for (const path of paths) for (const work of callsOn(client, path)) await answers.take(work());
      const watching = async (): Promise<unknown> => {
        const events: unknown[] = [];
        for await (const event of client.watch({ workspace: "app", path: "" })) {
          events.push(event);
          if (event.kind === FilesWatchKind.AVAILABLE || event.kind === FilesWatchKind.UNAVAILABLE) {
            symlinkSync(join(temp.outside, "secret"), join(temp.dir, "later"));
            symlinkSync(temp.outside, join(temp.dir, "later-too"));
            writeFileSync(join(temp.dir, "last"), "last");
          }
          if (event.path === "last") break;
        }
        return events;
      };
      await answers.take(watching());
      // By the gateway, and what its record keeps of it.
      for (const path of ["absolute/secret", "dangling", "folder"]) {
        for (const work of callsOn(kit.client, path, "devbox:/app")) await answers.take(work());
      }
      // The folder itself goes away, and the rules are none.
      rmSync(temp.dir, { recursive: true });
      for (const path of ["", "file"]) for (const work of callsOn(client, path)) await answers.take(work());
      await answers.take(temp.exports.apply([exportOf(join(temp.dir, "gone"))]));
      await answers.take(client.stat({ workspace: "app", path: "file" }));
      await answers.take(client.listExports({}));
      await answers.take(kit.records());
      expect(answers.texts.join()).toContain("leads out of the workspace");
      expect(answers.texts.join().includes("EIO")).toBe("beforePublish" in hooks);
      const base = temp.dir.replace(/\/app$/, "");
      for (const text of answers.texts) {
        // What a caller wrote itself may come back to it.
        const said = text.replaceAll("/etc/passwd", "");
        for (const leak of [base, "/tmp", "/proc", "/home", "outside"])
          expect([text, said.includes(leak)]).toEqual([text, false]);
      }
    }
  },
);
