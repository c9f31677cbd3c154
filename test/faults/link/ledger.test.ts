import { mkdir, rm, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { openLedgerStore } from "../../../node-agent/link/ledger-store.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { canMount, mountTmpfs } from "../files/tmpfs.ts";

const kibi = 1024;

function countingServices(ran: string[]) {
  return [
    serve(Files, {
      stat: async ({ path }) => ({ entry: { path } }),
      remove: async ({ path }) => {
        ran.push(path);
        return { removed: 1n };
      },
    }),
  ];
}

proves(
  "link.ledger-before-effect",
  "a ledger that cannot be written refuses what runs once before it runs, and nothing else",
  { skip: !canMount() },
  async () => {
    await using disk = await mountTmpfs(512 * kibi);
    await using gateway = await openLinkGateway();
    const ran: string[] = [];
    const file = disk.join("ledger.db");
    await mkdir(file);
    await using _node = await openLinkNode(gateway, { services: countingServices(ran), ledgerFile: file });
    const files = (await whenLinked(gateway)).client(Files);
    const refused = async (path: string): Promise<unknown> => {
      const fault = await faultOf(files.remove({ path }, { idempotencyKey: path }));
      expect(fault.hint).toMatch(/\S/);
      expect((await files.stat({ path: "goes on" })).entry?.path).toBe("goes on");
      return fault.code;
    };

    // No file at all: a folder has its name.
    expect(await refused("no ledger")).toBe("IO_ERROR");
    await rm(file, { recursive: true });
    await files.remove({ path: "first" });

    // A disk that is full: of that call nothing is written down, and it may be asked for again.
    await writeFile(disk.join("filler"), Buffer.alloc(512 * kibi)).catch(() => undefined);
    const full: string[] = [];
    for (let at = 0; at < 40 && full.at(-1) !== "DISK_FULL"; at += 1) {
      const path = `full ${at}`;
      const code = await files.remove({ path }, { idempotencyKey: path }).then(
        () => "ran",
        async () => await refused(path),
      );
      full.push(String(code));
    }
    expect(full.at(-1)).toBe("DISK_FULL");
    expect(ran.filter((path) => path.startsWith("full"))).toHaveLength(full.length - 1);
    await rm(disk.join("filler"));
    await files.remove({ path: `full ${full.length - 1}` }, { idempotencyKey: `full ${full.length - 1}` });
    expect(ran.filter((path) => path === `full ${full.length - 1}`)).toHaveLength(1);
    expect(ran).toContain("first");
    expect(ran).not.toContain("no ledger");
  },
);

test("a damaged ledger is never taken for an empty one", async () => {
  await using home = await makeTempFolder();
  await using gateway = await openLinkGateway();
  const ran: string[] = [];
  const file = home.join("ledger.db");
  await writeFile(file, "this was a ledger once, and is none now; what it knew is not to be run again");
  await using _node = await openLinkNode(gateway, { services: countingServices(ran), ledgerFile: file });
  const files = (await whenLinked(gateway)).client(Files);
  expect(await faultOf(files.remove({ path: "again" }))).toMatchObject({
    code: "IO_ERROR",
    hint: expect.stringContaining("ledger.db"),
  });
  expect(ran).toEqual([]);
});

test("a ledger is the same one after it was opened again, and another one once it was lost", async () => {
  await using home = await makeTempFolder();
  const file = home.join("ledger.db");
  const idNow = (): string => {
    using store = openLedgerStore(file);
    return store.id;
  };
  const id = idNow();
  expect(idNow()).toBe(id);
  for (const name of await home.entries()) await rm(home.join(name));
  expect(idNow()).not.toBe(id);
});
