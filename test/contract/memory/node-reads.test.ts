import { afterAll, beforeAll, expect, test } from "vitest";
import { type MemoryHost, startMemory } from "../../../node-agent/memory/memory.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Memory } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectLinks } from "../../support/direct-link.ts";
import { toExport } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 120_000;
const signal = new AbortController().signal;
const hidden = "not for anyone\n";
const smile = "\u{1F642}";

let plain: TempWorkspace;
let linked: TempWorkspace;
let outside: TempWorkspace;
let host: MemoryHost;
let client: Client<typeof Memory>;

beforeAll(async () => {
  plain = await makeTempWorkspace({
    "MEMORY.md": "one\ntwo\nthree\nfour\n",
    "memory/smile.md": `ab${smile}cd\nnext\n`,
    ...Object.fromEntries(Array.from({ length: 999 }, (_, at) => [`memory/many/${at}.md`, `file ${at}\n`])),
  });
  outside = await makeTempWorkspace({ "real/notes.md": "trusted text\n", "secret/a.md": hidden });
  linked = await makeTempWorkspace({ "private/a.md": hidden, "memory/real/b.md": "b\n" });
  await linked.link("memory/inner", "real");
  await linked.link("memory/private", "../private");
  await linked.link("memory/leaf.md", "../private/a.md");
  await linked.link("memory/other.md", "real/b.md");
  await linked.link("memory/away", outside.join("secret"));
  await outside.link("named", "real");
  await linked.link("memory/trusted", outside.join("named"));
  const trusting = {
    ...toExport("linked", linked.path),
    followSymlinks: true,
    allowSymlinkTargets: [{ path: outside.join("named"), write: false }],
  };
  host = startMemory({
    workspaces: () => ({
      workspaces: [toExport("plain", plain.path), trusting],
      homeDir: plain.join(".fairlead"),
      limits: { treeEntries: 1_000_000, treeDepth: 64 },
    }),
    environment: { HOME: "/", PATH: "/usr/bin:/bin" },
    log: silentLog,
  });
  client = createDirectLinks()
    .connect({ nodeId: "devbox", services: [host.service] })
    .client(Memory);
}, timeout);

afterAll(async () => {
  await host[Symbol.asyncDispose]();
  await Promise.all([plain, linked, outside].map((folder) => folder[Symbol.asyncDispose]()));
}, timeout);

proves(
  "memory.read",
  "lines come with their numbers from 1, are cut between characters, and a missing file is a state",
  { timeout },
  async () => {
    const read = (path: string, range: { from?: number; lines?: number; maxChars?: number } = {}) =>
      client.read({ workspace: "plain", path, ...range }, { signal });
    expect(await read("MEMORY.md", { from: 2, lines: 2 })).toMatchObject({
      status: "ok",
      text: "two\nthree\n",
      firstLine: 2,
      lastLine: 3,
      totalLines: 4,
      truncated: false,
      digest: digestOf("one\ntwo\nthree\nfour\n"),
    });
    expect(await read("MEMORY.md")).toMatchObject({ firstLine: 1, lastLine: 4, truncated: false });
    // A limit in the middle of a surrogate pair cuts before it.
    expect(await read("memory/smile.md", { maxChars: 3 })).toMatchObject({
      text: "ab",
      firstLine: 1,
      lastLine: 1,
      truncated: true,
    });
    expect(await read("memory/smile.md", { maxChars: 4 })).toMatchObject({
      text: `ab${smile}`,
      truncated: true,
    });
    for (const path of ["memory/gone.md", "USER.md", "memory/none/gone.md"])
      expect(await read(path), path).toMatchObject({ status: "not_found", text: "" });
  },
);

proves(
  "memory.inspect",
  "one call tells path, size, time and digest of 1,000 files, and null for one that is gone",
  { timeout },
  async () => {
    const paths = Array.from({ length: 999 }, (_, at) => `memory/many/${at}.md`);
    const { files } = await client.inspect(
      { workspace: "plain", paths: [...paths, "memory/many/gone.md"] },
      { signal },
    );
    expect(files).toHaveLength(1000);
    for (const [at, path] of paths.entries()) {
      const text = `file ${at}\n`;
      expect(files[at]?.file, path).toMatchObject({
        path,
        sizeBytes: BigInt(text.length),
        digest: digestOf(text),
      });
      expect(files[at]?.file?.modifiedNs, path).toBeGreaterThan(0n);
    }
    expect([files[999]?.file, files[999]?.fault]).toEqual([undefined, undefined]);
  },
);

test(
  "what a linked folder holds is judged as what it is, and trusted folders are read",
  { timeout },
  async () => {
    const read = (path: string) => client.read({ workspace: "linked", path }, { signal });
    expect(await read("memory/inner/b.md")).toMatchObject({
      text: "b\n",
      source: { canonicalPath: "memory/real/b.md" },
    });
    expect(await read("memory/trusted/notes.md")).toMatchObject({ text: "trusted text\n" });
    await expect(read("memory/private/a.md")).rejects.toMatchObject({ code: "POLICY_DENIED" });
    await expect(read("memory/away/a.md")).rejects.toMatchObject({ code: "PATH_ESCAPES" });
    for (const path of ["memory/leaf.md", "memory/other.md"])
      await expect(read(path), path).rejects.toMatchObject({ code: "SYMLINK_REFUSED" });
    const inspected = await client.inspect(
      { workspace: "linked", paths: ["memory/private/a.md", "memory/leaf.md"] },
      { signal },
    );
    expect(inspected.files.map(({ fault }) => fault && fromWireFault(fault).code)).toEqual([
      undefined,
      "SYMLINK_REFUSED",
    ]);
  },
);
