import { link, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { parse, stringify } from "yaml";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf, listOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { type FilesPair, startFilesPair } from "../files/pair.ts";

// What a running machine exports, and how, is changed on that machine, and holds from then on.
const patience = { timeout: 120_000 };
const soon = { timeout: 30_000, interval: 25 };
const mebi = 1024 * 1024;
const workspace = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({
    profile: "full",
    throughProxy: true,
    files: {
      "plain.txt": "plain",
      ".env": "SECRET=1",
      "real/in.txt": "in",
    },
  });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
}, 60_000);

/** The fault that `work` ends with; undefined when it succeeds. */
async function faultIn(work: Promise<unknown>): Promise<Fault | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

const stat = (where: string, path: string) => faultIn(pair.client.stat({ workspace: where, path }));

async function read(path: string, where = workspace): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const { part } of pair.client.read({ workspace: where, path }))
    if (part.case === "chunk") chunks.push(part.value);
  return Buffer.concat(chunks).toString("utf8");
}

interface Written {
  readonly where?: string;
  /** The second half is sent once this has resolved. */
  readonly pause?: Promise<void>;
}

/** Stores a file. */
async function write(
  path: string,
  bytes: Uint8Array,
  { where = workspace, pause }: Written = {},
): Promise<void> {
  const half = Math.floor(bytes.byteLength / 2);
  await pair.client.write(
    (async function* () {
      const header = {
        workspace: where,
        path,
        precondition: WritePrecondition.ANY,
        sizeBytes: BigInt(bytes.byteLength),
      };
      yield { part: { case: "header" as const, value: header } };
      yield { part: { case: "chunk" as const, value: bytes.subarray(0, half) } };
      await pause;
      yield { part: { case: "chunk" as const, value: bytes.subarray(half) } };
      const trailer = { sizeBytes: header.sizeBytes, digest: digestOf(bytes) };
      yield { part: { case: "trailer" as const, value: trailer } };
    })(),
  );
}

/** Since when the gateway has the workspace as it is. */
async function sinceOf(): Promise<unknown> {
  const listed = listOf(await pair.gateway.json(["workspaces", "ls"]), "workspaces");
  return listed.find((one) => Object(one).workspace === workspace && Object(one).state === "available");
}

/** Changes the settings of the workspace `app` on its machine; resolves once the gateway has it anew. */
async function setOnNode(settings: Readonly<Record<string, unknown>>): Promise<void> {
  const file = join(pair.node.home, "node/config.yaml");
  const before = await sinceOf();
  const config = parse(await readFile(file, "utf8")) as { workspaces: Record<string, unknown>[] };
  const workspaces = config.workspaces.map((one) => (one["name"] === "app" ? { ...one, ...settings } : one));
  await writeFile(file, stringify({ ...config, workspaces }));
  // What runs under the old settings ends when the new ones are known, so nothing is asked before.
  await expect.poll(sinceOf, soon).not.toEqual(before);
  await expect.poll(sinceOf, soon).toBeDefined();
}

proves(
  "files.export-live-change",
  "a folder can be used soon after it was exported, and no longer once that was taken back",
  patience,
  async () => {
    const { node, gateway, proxy } = pair;
    await using docs = await makeTempWorkspace({ "a.txt": "a", "big.bin": Buffer.alloc(16 * mebi, "b") });
    const before = await docs.entries();
    expect(await stat("devbox:/docs", "a.txt")).toMatchObject({ code: "NOT_FOUND" });
    const added = await node.cli(["node", "workspace", "add", "docs", docs.path, "--write", "**"]);
    expect(added.exitCode).toBe(0);
    let since = systemClock.now();
    await expect.poll(() => stat("devbox:/docs", "a.txt"), soon).toBeUndefined();
    expect(systemClock.now() - since).toBeLessThan(2_000);
    expect(await gateway.json(["files", "ls", "devbox:/docs"])).toMatchObject({ path: "devbox:/docs" });
    const session = await gateway.json(["sessions", "open", "--workspace", "devbox:/docs"]);
    expect(session).toMatchObject({ workspace: "devbox:/docs" });

    proxy?.limit(2 * mebi);
    const crossed = proxy?.counts.up.bytes ?? 0;
    const never = Promise.withResolvers<void>();
    const running = [
      read("big.bin", "devbox:/docs"),
      write("part.bin", Buffer.alloc(64 * 1024), { where: "devbox:/docs", pause: never.promise }),
    ].map(faultIn);
    await expect.poll(() => (proxy?.counts.up.bytes ?? 0) - crossed, soon).toBeGreaterThan(mebi);
    expect((await node.cli(["node", "workspace", "rm", "docs"])).exitCode).toBe(0);
    since = systemClock.now();
    const stopped = { code: "WORKSPACE_ACCESS_UNAVAILABLE", retryable: true, details: { reason: "stopped" } };
    expect(await Promise.all(running)).toMatchObject([stopped, stopped]);
    expect(systemClock.now() - since).toBeLessThan(2_000);
    never.resolve();
    proxy?.mend();
    expect(await stat("devbox:/docs", "a.txt")).toMatchObject(stopped);
    const states = listOf(await gateway.json(["workspaces", "ls"]), "workspaces");
    expect(states).toContainEqual(
      expect.objectContaining({ workspace: "devbox:/docs", state: "unavailable", reason: "stopped" }),
    );
    await expect.poll(() => docs.entries(), soon).toEqual(before);
    expect(await docs.text("a.txt")).toBe("a");
    // What else is exported went on all the time.
    expect(await read("plain.txt")).toBe("plain");
  },
);

proves(
  "files.symlink-rules",
  "links are refused until the machine follows them, and then only those that stay inside",
  patience,
  async () => {
    await pair.workspace.link("to-file", "plain.txt");
    await pair.workspace.link("to-folder", "real");
    await pair.workspace.link("to-secret", ".env");
    await pair.workspace.link("out", "/etc");
    const refused = (path: string) => ({
      code: "SYMLINK_REFUSED",
      message: expect.stringContaining(path),
      hint: expect.stringContaining("followSymlinks"),
      details: { path },
    });
    const list = (path: string) => faultIn(pair.client.list({ workspace, path, limit: 10 }));
    const put = (path: string) => faultIn(write(path, Buffer.from("new")));
    expect(await faultIn(read("to-file"))).toMatchObject(refused("to-file"));
    expect(await faultIn(read("to-folder/in.txt"))).toMatchObject(refused("to-folder"));
    expect(await faultIn(read("out/passwd"))).toMatchObject(refused("out"));
    expect(await list("to-folder")).toMatchObject(refused("to-folder"));
    expect(await list("out")).toMatchObject(refused("out"));
    expect(await put("to-folder/new.txt")).toMatchObject(refused("to-folder"));
    expect(await put("to-file")).toMatchObject(refused("to-file"));

    await setOnNode({ followSymlinks: true });
    await expect.poll(() => faultIn(read("to-file")), soon).toBeUndefined();
    expect(await read("to-file")).toBe("plain");
    expect(await read("to-folder/in.txt")).toBe("in");
    expect(await list("to-folder")).toBeUndefined();
    const { source } = await pair.client.stat({ workspace, path: "to-folder/in.txt" });
    expect(source).toMatchObject({ requestedPath: "to-folder/in.txt", canonicalPath: "real/in.txt" });
    // What a link leads to is judged by where it really is.
    expect(await faultIn(read("to-secret"))).toMatchObject({ code: "POLICY_DENIED" });
    const escapes = { code: "PATH_ESCAPES", details: { path: "out" } };
    expect(await faultIn(read("out/passwd"))).toMatchObject(escapes);
    expect(await list("out")).toMatchObject(escapes);
    expect(await put("out/fairlead-test")).toMatchObject({ code: "PATH_ESCAPES" });
    expect(await put("to-folder/new.txt")).toBeUndefined();
    expect(await pair.workspace.text("real/new.txt")).toBe("new");
    expect(await put("to-file")).toMatchObject({ code: "SYMLINK_REFUSED", details: { path: "to-file" } });
    expect(await pair.workspace.text("plain.txt")).toBe("plain");
    await setOnNode({ followSymlinks: false });
    await expect.poll(() => faultIn(read("to-file")), soon).toMatchObject(refused("to-file"));
  },
);

proves(
  "files.hardlink",
  "a file with two names is neither read nor written unless the machine allows it",
  patience,
  async () => {
    await using outside = await makeTempFolder();
    await writeFile(outside.join("other.txt"), "shared");
    await link(outside.join("other.txt"), pair.workspace.join("shared.txt"));
    const refused = { code: "HARDLINK_REFUSED", details: { path: "shared.txt" } };
    expect(await faultIn(read("shared.txt"))).toMatchObject(refused);
    expect(await faultIn(write("shared.txt", Buffer.from("new")))).toMatchObject(refused);
    expect(await pair.workspace.text("shared.txt")).toBe("shared");
    expect(await readFile(outside.join("other.txt"), "utf8")).toBe("shared");
    await setOnNode({ allowHardLinks: true });
    await expect.poll(() => faultIn(read("shared.txt")), soon).toBeUndefined();
    expect(await read("shared.txt")).toBe("shared");
    expect(await faultIn(write("shared.txt", Buffer.from("new")))).toBeUndefined();
    expect(await read("shared.txt")).toBe("new");
    await setOnNode({ allowHardLinks: false });
    await pair.workspace.remove("shared.txt");
  },
);

proves(
  "files.export-illegal-root",
  "a folder that must not be exported is refused, and the machine's own state stays closed in one that may",
  patience,
  async () => {
    await using folder = await makeTempWorkspace({
      "with space/a.txt": "a",
      "file.txt": "file",
      "home/": "",
    });
    await folder.link("linked", "with space");
    await using node = await startNode({
      gateway: pair.gateway,
      alias: "root-test",
      profile: "full",
      home: folder.join("home"),
    });
    const add = (name: string, dir: string, ...more: readonly string[]) =>
      node.cli(["node", "workspace", "add", name, dir, ...more, "--json"]);
    for (const [dir, exitCode, code] of [
      ["/", 2, "INVALID_ARGUMENT"],
      [folder.join("none"), 4, "NOT_FOUND"],
      [folder.join("file.txt"), 1, "NOT_A_DIRECTORY"],
      [folder.join("home"), 3, "POLICY_DENIED"],
      [folder.join("home/node"), 3, "POLICY_DENIED"],
    ] as const) {
      expect(faultOf(await add("bad", dir))).toMatchObject({ exitCode, code });
    }
    expect((await add("spaces", folder.join("with space"))).exitCode).toBe(0);
    expect((await add("linked", folder.join("linked"))).exitCode).toBe(0);
    const all = ["--read", "**", "--write", "**", "--write", "home/**", "--deny", "!**/*.pem"];
    expect((await add("above", folder.path, ...all)).exitCode).toBe(0);
    for (const path of ["spaces/a.txt", "linked/a.txt", "above/file.txt"]) {
      const [name = "", file = ""] = path.split("/");
      await expect.poll(() => stat(`root-test:/${name}`, file), soon).toBeUndefined();
      expect(await read(file, `root-test:/${name}`)).toBe(file === "a.txt" ? "a" : "file");
    }
    const above = "root-test:/above";
    const key = await readFile(folder.join("home/node/identity/key.pem"), "utf8");
    const works: readonly (() => Promise<unknown>)[] = [
      () => read("home/node/identity/key.pem", above),
      () => pair.client.list({ workspace: above, path: "home/node", limit: 10 }),
      () => pair.client.remove({ workspace: above, path: "home", recursive: true }),
      () => write("home/node/identity/key.pem", Buffer.from("mine"), { where: above }),
      () => write("home/new.txt", Buffer.from("mine"), { where: above }),
    ];
    for (const work of works) expect(await faultIn(work())).toMatchObject({ code: "POLICY_DENIED" });
    const listed = await pair.gateway.cli(["files", "ls", above, "--recursive", "--json"]);
    expect(listed.stdout).not.toContain("key.pem");
    expect(await readFile(folder.join("home/node/identity/key.pem"), "utf8")).toBe(key);
  },
);
