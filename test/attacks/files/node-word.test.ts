import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { createFilePolicy } from "../../../node-agent/workspace/file-policy.ts";
import { FileOperation, Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Tools } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectClient } from "../../contract/files/direct-client.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit } from "../../support/session-kit.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { exportOf } from "../../unit/workspace/temp-exports.ts";

interface Claims {
  readonly leaseEpoch?: bigint;
  readonly pin?: { readonly canonicalPath: string; readonly identity: string };
}

type Calls = Readonly<Record<string, () => Promise<unknown>>>;

/** Every call of the service that names a path, on `path`, with what its gateway claims. */
function callsOn(client: Client<typeof Files>, path: string, { leaseEpoch = 0n, pin }: Claims = {}): Calls {
  const place = { workspace: "app", path, leaseEpoch };
  const pinned = { ...place, ...(pin ? { pin } : {}) };
  const moved = { workspace: "app", leaseEpoch, ...(pin ? { fromPin: pin, toPin: pin } : {}) };
  return {
    stat: () => client.stat(pinned),
    list: () => client.list(pinned),
    "list below": () => client.list({ ...pinned, recursive: true }),
    preflight: () => client.preflight({ ...place, operation: FileOperation.READ }),
    read: () => Array.fromAsync(client.read(pinned)),
    tree: () => Array.fromAsync(client.readTree(pinned)),
    manifest: () => Array.fromAsync(client.manifest(pinned)),
    watch: () => Array.fromAsync(client.watch(pinned)),
    write: () => writeWhole(client, { ...pinned, content: "by the gateway" }),
    "write a tree": () =>
      client.writeTree(
        (async function* () {
          yield { header: { ...pinned, precondition: WritePrecondition.ANY } };
        })(),
      ),
    remove: () => client.remove(pinned),
    "remove all": () => client.remove({ ...pinned, recursive: true }),
    "move away": () => client.move({ ...moved, from: path, to: "open/new" }),
    "move to": () => client.move({ ...moved, from: "open/file", to: path }),
    mkdir: () => client.makeFolder(pinned),
    chunks: () => Array.fromAsync(client.listChunks(pinned)),
    "find a part": () => client.findPart({ ...place, partKey: "key" }),
    "drop a part": () => client.dropPart({ ...place, partKey: "key" }),
  };
}

function fill(dir: string): void {
  for (const folder of ["open", "shut"]) {
    mkdirSync(join(dir, folder));
    writeFileSync(join(dir, folder, "file"), `of ${folder}`);
  }
}

proves(
  "files.node-has-final-word",
  "a gateway gets nothing that the node denies, whatever it claims, and nothing by an earlier lease",
  { timeout: 60_000 },
  async () => {
    await using kit = await openFilesKit({ fill, settings: { deny: ["shut"] } });
    const { temp } = kit;
    const node = createDirectClient(Files, temp.files);
    const seen = await node.preflight({ workspace: "app", path: "open/file", operation: FileOperation.READ });
    const pin = { canonicalPath: "shut/file", identity: seen.identity };
    for (const path of ["shut", "shut/file", "shut/new"]) {
      for (const claims of [{}, { pin }]) {
        for (const [name, run] of Object.entries(callsOn(node, path, claims))) {
          const fault = await faultOf(run());
          expect([name, path, fault.code, fault.details["side"]]).toEqual([
            name,
            path,
            "POLICY_DENIED",
            "node",
          ]);
        }
      }
    }
    const left: readonly unknown[] = readdirSync(temp.dir, { recursive: true });
    expect(new Set(left)).toEqual(new Set(["open", "open/file", "shut", "shut/file"]));
    expect(readFileSync(join(temp.dir, "shut/file"), "utf8")).toBe("of shut");
    await using machine = await openSessionKit();
    const { tools } = await machine.addNode({ files: { ".env": "secret", "a.txt": "a" }, writable: true });
    const byTool = createDirectClient(Tools, tools.service);
    const call = { workspace: "app", sessionId: "s", agent: "coder", approvalId: "a grant of the gateway" };
    const denied = { code: "POLICY_DENIED", details: { side: "node" } };
    const reading = { ...call, name: "read", arguments: { path: ".env" } };
    expect(await faultOf(Array.fromAsync(byTool.callIdempotent({ call: reading })))).toMatchObject(denied);
    const writing = { ...call, name: "write", arguments: { path: ".env", content: "x" } };
    expect(await faultOf(Array.fromAsync(byTool.call({ call: writing })))).toMatchObject(denied);
    const staleCall = { ...call, name: "read", arguments: { path: "a.txt" }, leaseEpoch: 9n };
    expect((await faultOf(Array.fromAsync(byTool.callIdempotent({ call: staleCall })))).code).toBe(
      "WORKSPACE_ACCESS_UNAVAILABLE",
    );

    // Exported anew: what was meant for the registration before is refused by the node itself.
    await temp.exports.apply([exportOf(temp.dir, { followSymlinks: true })]);
    const [{ leaseEpoch } = { leaseEpoch: 0n }] = (await node.listExports({})).exports;
    expect(leaseEpoch).toBe(2n);
    const stale = { code: "WORKSPACE_ACCESS_UNAVAILABLE", details: { side: "node", reason: "stopped" } };
    const barrier = (epoch: bigint) => () =>
      node.barrier({ workspace: "app", token: "token", leaseEpoch: epoch });
    for (const epoch of [1n, 3n]) {
      const calls = { ...callsOn(node, "open/file", { leaseEpoch: epoch }), barrier: barrier(epoch) };
      for (const [name, run] of Object.entries(calls))
        expect([name, await faultOf(run())]).toMatchObject([name, stale]);
    }
    expect(readFileSync(join(temp.dir, "open/file"), "utf8")).toBe("of open");
    expect(await node.stat({ workspace: "app", path: "open/file", leaseEpoch })).toMatchObject({
      entry: { path: "open/file" },
    });
    // The kit's gateway holds the earlier one, and says so with every call.
    expect(await faultOf(kit.client.stat({ workspace: "devbox:/app", path: "open/file" }))).toMatchObject(
      stale,
    );
  },
);

proves(
  "files.deny-aliases",
  "what is denied stays denied under every other name of it, on either side",
  { timeout: 60_000 },
  async () => {
    const deny = ["caf\u00e9", "**/.env*", "secret", "a\nb"];
    const quoted = deny.map((glob) => JSON.stringify(glob)).join(", ");
    const names = [
      "caf\u00e9",
      "cafe\u0301",
      ".env",
      " .env",
      ".env ",
      " secret",
      "secret ",
      "a\nb",
      "a/b",
      "ab",
    ];
    const sides = [
      { side: "gateway", policy: `files:\n  shut: { deny: [${quoted}] }\n`, settings: {} },
      { side: "node", policy: "", settings: { deny } },
    ];
    for (const { side, policy, settings } of sides) {
      await using kit = await openFilesKit({
        fill: (dir) => {
          mkdirSync(join(dir, "a"));
          for (const name of names) writeFileSync(join(dir, name), "content");
          mkdirSync(join(dir, "secret"));
          writeFileSync(join(dir, "secret/file"), "secret");
          symlinkSync("secret", join(dir, "open"));
        },
        policy,
        settings: { ...settings, followSymlinks: true },
      });
      const read = (path: string): Promise<unknown> =>
        Array.fromAsync(kit.client.read({ workspace: "devbox:/app", path }));
      const shut = [...names.filter((name) => name !== "a/b" && name !== "ab"), "secret/file", "open/file"];
      for (const path of shut) {
        const fault = await faultOf(read(path));
        expect([path, fault.code, fault.details["side"]]).toEqual([path, "POLICY_DENIED", side]);
        const written = await faultOf(
          writeWhole(kit.client, { workspace: "devbox:/app", path, content: "x" }),
        );
        expect([path, written.code]).toEqual([path, "POLICY_DENIED"]);
      }
      for (const path of ["a/b", "ab"]) await read(path);
      // The name with the newline is what the rule means, and no path that has a slash there.
      const fault = await faultOf(read("a\nb"));
      expect(fault.details["rule"]).toContain("deny a\nb");
    }

    // Volumes that ignore case cannot be had here: what judges is told so, as their nodes tell it.
    const other = [".ENV", "x/.Env.local", "SECRET", "Secret/file", "CAF\u00c9", "CAFE\u0301"];
    const onNode = createFilePolicy(exportOf("/x", { deny }), { ignoresCase: true });
    const onOther = createFilePolicy(exportOf("/x", { deny }));
    for (const path of other) {
      const parsed = parseWorkspacePath(path);
      expect([path, onNode.judge("read", parsed).decision]).toEqual([path, "deny"]);
      expect([path, onOther.judge("read", parsed).decision]).toEqual([path, "allow"]);
      expect(onNode.isListed(parsed)).toBe(path.includes("/") && path.startsWith("Secret"));
    }
    const policy = `files:\n  shut: { deny: [${quoted}] }\n`;
    await using kit = await openFilesKit({ policy, ignoresCase: true });
    for (const path of other) {
      const fault = await faultOf(kit.client.stat({ workspace: "devbox:/app", path }));
      expect([path, fault.code, fault.details["side"]]).toEqual([path, "POLICY_DENIED", "gateway"]);
    }
    await using plain = await openFilesKit({ policy });
    for (const path of other) {
      const fault = await faultOf(plain.client.stat({ workspace: "devbox:/app", path }));
      expect([path, fault.code]).not.toEqual([path, "POLICY_DENIED"]);
    }
  },
);
