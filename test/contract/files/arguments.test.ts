import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { commands } from "../../../gateway/cli/files.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { createCommandInput } from "../../../shared/terminal/command-input.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";
import { type Written, writeWhole } from "../../support/write-whole.ts";

const workspace = "devbox:/app";
const digest = digestOf("x");

/** What is no count of bytes: as a client may write it, and as a negative number arrives from one that does not look. */
const noCounts = [-1n, 1.5, Infinity, Number.NaN, 2n ** 53n, 2n ** 64n - 1n] as readonly bigint[];
const noDigests = ["sha256:", `sha256:${"A".repeat(64)}`, `${digest}0`, digest.slice(0, -1), "md5:0", "any"];
const noPages = [0, 10_001, -1, 1.5, Infinity, 2 ** 32 - 1];

const refused = (field: string): Partial<Fault> => ({
  code: "INVALID_ARGUMENT",
  details: expect.objectContaining({ field }) as Fault["details"],
});

type Client = FilesKit["client"];

const read = (client: Client, more: object): Promise<unknown> =>
  Array.fromAsync(client.read({ workspace, path: "d/f", ...more }));
const write = (client: Client, more: Partial<Written>): Promise<unknown> =>
  writeWhole(client, { workspace, path: "d/f", content: "new", ...more });
const list = (client: Client, more: object): Promise<unknown> =>
  client.list({ workspace, path: "d", ...more });

/** Every wrong argument, by the field that its fault names. */
function* wrong(cursor: string): Generator<readonly [string, (client: Client) => Promise<unknown>]> {
  for (const count of noCounts) {
    yield ["offset", (client) => read(client, { offset: count })];
    yield ["length", (client) => read(client, { length: count })];
    yield ["resumeBytes", (client) => read(client, { resumeBytes: count, resumeDigest: digest })];
    // Of a size that is a number and merely too large that is said.
    if (count !== 2n ** 53n) yield ["sizeBytes", (client) => write(client, { sizeBytes: count })];
    yield ["resumeBytes", (client) => write(client, { resumeBytes: count, resumeDigest: digest })];
  }
  for (const text of noDigests) {
    const match = { precondition: WritePrecondition.MATCH, ifMatch: text };
    yield ["ifMatch", (client) => read(client, { ifMatch: text })];
    yield ["ifMatch", (client) => write(client, match)];
    yield ["ifMatch", (client) => client.remove({ workspace, path: "d/f", ifMatch: text })];
    yield ["resumeDigest", (client) => read(client, { resumeBytes: 1n, resumeDigest: text })];
    yield ["resumeDigest", (client) => write(client, { resumeBytes: 1n, resumeDigest: text })];
    const known = { workspace, path: "d", knownDigest: text };
    yield ["knownDigest", (client) => Array.fromAsync(client.manifest(known))];
  }
  yield ["ifMatch", (client) => write(client, { precondition: WritePrecondition.MATCH })];
  for (const limit of noPages) yield ["limit", (client) => list(client, { limit })];
  const altered = [
    cursor.slice(1),
    `${cursor}A`,
    cursor.replace(/.$/, (end) => (end === "A" ? "B" : "A")),
    "?",
  ];
  for (const text of altered) yield ["cursor", (client) => list(client, { cursor: text })];
  yield ["cursor", (client) => list(client, { cursor, recursive: true })];
  yield ["cursor", (client) => client.list({ workspace, path: "", cursor })];
}

function fill(dir: string): void {
  mkdirSync(join(dir, "d"));
  for (const name of ["f", "g"]) writeFileSync(join(dir, "d", name), name);
}

describe("an argument that is none", () => {
  proves("files.arguments-refused", "is refused before the node or a person hears of it", async () => {
    const calls: string[] = [];
    const policy = "files:\n  ask: { read: [], write: [], ask: on-miss }\n";
    await using kit = await openFilesKit({ fill, policy, onNodeCall: (name) => void calls.push(name) });
    await using open = await openFilesKit({ fill });
    const { nextCursor } = await open.client.list({ workspace, path: "d", limit: 1 });
    expect(nextCursor).not.toBe("");
    let count = 0;
    for (const [field, work] of wrong(nextCursor)) {
      count += 1;
      expect([count, field, await faultOf(work(kit.hasty))]).toMatchObject([count, field, refused(field)]);
    }
    expect([count, calls, await kit.approvals.list()]).toEqual([29 + 36 + 1 + 6 + 6, [], []]);
    // What is an argument is asked about.
    for (const more of [{ limit: 1 }, { limit: 10_000 }, { cursor: nextCursor }, {}])
      expect(await faultOf(list(kit.hasty, more))).toMatchObject({ code: "APPROVAL_REQUIRED" });
    expect(calls).toContain("preflight");
    expect((await open.client.list({ workspace, path: "d", cursor: nextCursor })).entries).toMatchObject([
      { path: "d/g" },
    ]);
  });

  proves(
    "files.arguments-refused",
    "is refused on the command line before a gateway is looked for",
    async () => {
      const run = async (words: string, options: Record<string, string>): Promise<unknown> => {
        const command = commands.find((one) => one.words === `files ${words}`);
        const args = new Map([
          ["path", "devbox:/app/d/f"],
          ["local", "/nowhere"],
        ]);
        // Nothing of a runtime is there to be used.
        return await command?.run(createCommandInput({ args, options }), {} as Runtime);
      };
      for (const text of ["-1", "1.5", "Infinity", "NaN", "1e3", "0x10", "9007199254740993"]) {
        expect(await faultOf(run("cat", { offset: text }))).toMatchObject(refused("offset"));
        expect(await faultOf(run("cat", { length: text }))).toMatchObject(refused("length"));
      }
      for (const text of ["0", "-1", "1.5", "Infinity", "1000001"])
        expect(await faultOf(run("ls", { limit: text }))).toMatchObject(refused("limit"));
      for (const text of noDigests.filter((one) => one !== "any")) {
        for (const words of ["get", "put", "rm"])
          expect(await faultOf(run(words, { ifMatch: text }))).toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { field: expect.stringMatching(/^if-?match$/i) },
          });
      }
    },
  );

  proves(
    "files.arguments-refused",
    "is refused by the tools before the node or a person hears of it",
    async () => {
      await using kit = await openSessionKit();
      await kit.addNode({ files: { "d/f": "f", "d/g": "g" } });
      const before = kit.links.calls.length;
      const given: readonly (readonly [string, string, object])[] = [
        ...[0, 10_001, -1, 1.5].map((limit) => ["list", "limit", { path: "d", limit }] as const),
        ["list", "cursor", { path: "d", cursor: "altered" }],
        ...[0, -1, 1.5].map((from) => ["read", "from", { path: "d/f", from }] as const),
        ...[0, -1, 1.5].map((lines) => ["read", "lines", { path: "d/f", lines }] as const),
        ...noDigests
          .filter((one) => one !== "any")
          .map((ifMatch) => ["write", "ifMatch", { path: "d/f", content: "x", ifMatch }] as const),
      ];
      for (const [tool, field, more] of given) {
        const request = { name: `devbox__${tool}`, arguments: { ...more } };
        const fault = await faultOf(callTool(kit.tools, { agent: "operator" }, request));
        expect([tool, more, fault]).toMatchObject([tool, more, refused(field)]);
      }
      expect([kit.links.calls.length, await kit.approvals.list()]).toEqual([before, []]);
      const listed = { name: "devbox__list", arguments: { path: "d", limit: 1 } };
      const { details } = await callTool(kit.tools, { agent: "operator" }, listed);
      const rest = { path: "d", cursor: details["cursor"] ?? "" };
      await callTool(kit.tools, { agent: "operator" }, { name: "devbox__list", arguments: rest });
      expect(kit.links.calls.length).toBeGreaterThan(before);
    },
  );
});
