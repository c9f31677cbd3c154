import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { FaultSchema } from "../../../shared/gen/fairlead/v1/fault_pb.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";

const workspace = "devbox:/app";
/** Only root can make a device. */
const isRoot = process.getuid?.() === 0;
const specials = ["disk.md", "fifo.md", "socket.md", "zero.md"];

type WireFault = MessageInitShape<typeof FaultSchema>;
const codeOf = (fault: WireFault): string => fromWireFault(create(FaultSchema, fault)).code;

/** Makes a FIFO that nobody writes to, a socket, and devices that would never end or that nothing answers for. */
async function makeSpecials(folder: string): Promise<AsyncDisposable> {
  execFileSync("mkfifo", [join(folder, "fifo.md")]);
  execFileSync("mknod", [join(folder, "zero.md"), "c", "1", "5"]);
  execFileSync("mknod", [join(folder, "disk.md"), "b", "240", "0"]);
  const server = createServer();
  await once(server.listen(join(folder, "socket.md")), "listening");
  return server;
}

/** What `work` gives, which takes less than a second, while `other` is answered as well. */
async function timely<T>(work: () => Promise<T>, other: () => Promise<unknown>): Promise<T> {
  const startedAt = performance.now();
  const [answer] = await Promise.all([work(), other()]);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  return answer;
}

proves(
  "files.special-file",
  "what is no file is refused at once by read, tree, manifest and indexing, and holds nothing up",
  { timeout: 60_000, skip: !isRoot },
  async () => {
    await using kit = await openFilesKit({
      fill: (dir) => {
        mkdirSync(join(dir, "memory"));
        writeFileSync(join(dir, "memory/good.md"), "good words\n");
      },
    });
    const folder = join(kit.dir, "memory");
    await using memory = await openMemoryKit();
    await memory.addNode("devbox", { app: kit.dir });
    // The worker is started, and has read what is there, before anything is timed.
    await memory.memory.search({ query: "good", waitFresh: true });
    await using _specials = await makeSpecials(folder);

    const { client } = kit;
    const stat = (): Promise<unknown> => client.stat({ workspace, path: "memory/good.md" });
    const read = (path: string): Promise<unknown> => Array.fromAsync(client.read({ workspace, path }));
    for (const name of specials) {
      const fault = await timely(() => faultOf(read(`memory/${name}`)), stat);
      expect([name, fault]).toMatchObject([name, { code: "UNSUPPORTED_FILE_TYPE" }]);
    }
    const expected = specials.map((name) => `${name} UNSUPPORTED_FILE_TYPE`).toSorted();
    for (const method of ["readTree", "manifest"] as const) {
      const parts = await timely(
        () =>
          Array.fromAsync<{ readonly problems: readonly { path: string; fault?: WireFault | undefined }[] }>(
            client[method]({ workspace, path: "memory" }),
          ),
        stat,
      );
      const found = parts.flatMap(({ problems }) => problems);
      expect(found.map(({ path, fault }) => `${path} ${fault ? codeOf(fault) : ""}`).toSorted()).toEqual(
        expected,
      );
    }

    const get = (path: string): Promise<unknown> =>
      memory.memory.get({ workspaceId: "devbox-app", path: `memory/${path}` });
    for (const name of specials)
      expect(
        await timely(
          () => faultOf(get(name)),
          () => get("good.md"),
        ),
      ).toMatchObject({
        code: "UNSUPPORTED_FILE_TYPE",
      });
    const search = (): ReturnType<typeof memory.memory.search> =>
      memory.memory.search({ query: "good", waitFresh: true });
    const { hits, workspaces } = await timely(search, () => get("good.md"));
    expect([hits.length, workspaces]).toMatchObject([1, [{ fresh: true }]]);
    const [status] = await memory.memory.status();
    const skipped = status?.problems?.map(({ path = "", fault }) => `${path} ${fault ? codeOf(fault) : ""}`);
    expect(skipped).toEqual(expected.map((line) => `memory/${line}`));
  },
);
