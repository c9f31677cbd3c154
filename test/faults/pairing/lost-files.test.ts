import {
  chmodSync,
  copyFileSync,
  cpSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { expect, test } from "vitest";
import { migrate } from "../../../gateway/store/migrate.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { findIdentity, loadIdentity } from "../../../node-agent/pairing/identity.ts";
import { leaveGateway } from "../../../node-agent/pairing/leave.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { joinAs, startPairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const lost = { code: "INTEGRITY_FAILURE", retryable: false };

async function pairedGateway(): Promise<{ readonly place: TempFolder; readonly dir: string }> {
  const place = await makeTempFolder();
  const dir = place.join("gateway");
  await using gateway = await startPairingGateway({ dir });
  await using home = await makeTempFolder();
  await joinAs((await gateway.pairing.invite({})).code, home);
  return { place, dir };
}

test("a store that cannot be read is a fault, never an empty store, and stays as it was", async () => {
  const ruins: readonly [string, (file: string) => void, string][] = [
    ["emptied", (file) => truncateSync(file, 0), "INTEGRITY_FAILURE"],
    ["cut short", (file) => truncateSync(file, 6_000), "INTEGRITY_FAILURE"],
    [
      "overwritten",
      (file) => writeFileSync(file, "not a database at all, and rather long ".repeat(200)),
      "INTEGRITY_FAILURE",
    ],
    ["holed", (file) => writeFileSync(file, Buffer.alloc(20_000, 0xa5), { flag: "r+" }), "INTEGRITY_FAILURE"],
    [
      "a folder",
      (file) => (rmSync(file), cpSync(new URL(".", import.meta.url).pathname, file, { recursive: true })),
      "IO_ERROR",
    ],
  ];
  for (const [, ruin, code] of ruins) {
    const { place, dir } = await pairedGateway();
    await using _ = place;
    const file = `${dir}/state.db`;
    ruin(file);
    const before = code === "IO_ERROR" ? undefined : readFileSync(file);
    expect(await faultOf(openStore({ dir }))).toMatchObject({ code, details: { path: "state.db" } });
    if (before) expect(readFileSync(file).equals(before)).toBe(true);
  }
});

test("a store that was lost is not begun anew beside an authority that has nodes", async () => {
  const { place, dir } = await pairedGateway();
  await using _ = place;
  for (const ending of ["", "-wal", "-shm"]) rmSync(`${dir}/state.db${ending}`, { force: true });
  expect(await faultOf(startPairingGateway({ dir }))).toMatchObject({
    ...lost,
    details: { path: "state.db" },
  });
});

test("a log without its store is no reason for a new store", async () => {
  await using place = await makeTempFolder();
  await using store = await openStore({ dir: place.join("gateway") });
  await store[Symbol.asyncDispose]();
  renameSync(place.join("gateway", "state.db"), place.join("gateway", "state.db-wal"));
  expect(await faultOf(openStore({ dir: place.join("gateway") }))).toMatchObject(lost);
});

test(
  "an authority whose key, certificate or folder is gone or another's is a fault that names the file",
  { timeout: 120_000 },
  async () => {
    const stranger = await pairedGateway();
    await using _ = stranger.place;
    const ruins: readonly [(folder: string) => void, string][] = [
      [(folder) => rmSync(`${folder}/key.pem`), "authority/key.pem"],
      [(folder) => rmSync(`${folder}/cert.pem`), "authority/cert.pem"],
      [(folder) => rmSync(folder, { recursive: true }), "authority/key.pem"],
      [
        (folder) => copyFileSync(`${stranger.dir}/authority/key.pem`, `${folder}/key.pem`),
        "authority/key.pem",
      ],
      [(folder) => cpSync(`${stranger.dir}/authority`, folder, { recursive: true }), "authority/cert.pem"],
      [(folder) => writeFileSync(`${folder}/cert.pem`, "nonsense"), "authority/cert.pem"],
    ];
    for (const [ruin, path] of ruins) {
      const { place, dir } = await pairedGateway();
      await using __ = place;
      ruin(`${dir}/authority`);
      expect(await faultOf(startPairingGateway({ dir }))).toMatchObject({ ...lost, details: { path } });
    }
  },
);

test("a server certificate that is gone or damaged is made anew, and the pin stays", async () => {
  const { place, dir } = await pairedGateway();
  await using _ = place;
  const pins = new Set<string>();
  for (const ruin of [
    () => undefined,
    () => rmSync(`${dir}/authority/server.pem`),
    () => writeFileSync(`${dir}/authority/server.pem`, "x"),
  ]) {
    ruin();
    await using gateway = await startPairingGateway({ dir });
    await using home = await makeTempFolder();
    await joinAs((await gateway.pairing.invite({})).code, home);
    pins.add(gateway.pairing.pin);
  }
  expect(pins.size).toBe(1);
});

test("a store of a later version is left alone, one of an earlier is brought up with its rows", async () => {
  await using place = await makeTempFolder();
  const dir = place.join("gateway");
  let known = 0;
  {
    await using store = await openStore({ dir });
    known = await migrate(store.db, { clock: systemClock });
    expect(known).toBe(store.schema);
    await store.db
      .insertInto("schema_versions")
      .values({ version: known + 1, applied_at: 0 })
      .execute();
  }
  expect(await faultOf(openStore({ dir }))).toMatchObject({
    code: "VERSION_UNSUPPORTED",
    details: { expected: known, actual: known + 1 },
  });
});

test("an identity of which a file is missing, damaged or another node's is refused as a whole, naming the file", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  await using other = await makeTempFolder();
  const { code } = await gateway.pairing.invite({ uses: 2 });
  await joinAs(code, home);
  await joinAs(code, other);
  const kept = home.join("kept");
  const folder = home.join("node", "identity");
  cpSync(folder, kept, { recursive: true });
  for (const name of ["key.pem", "cert.pem", "gateway.json"]) {
    const ruins = [
      (file: string) => rmSync(file),
      (file: string) => writeFileSync(file, ""),
      (file: string) => copyFileSync(other.join("node", "identity", name), file),
    ];
    for (const ruin of ruins) {
      ruin(`${folder}/${name}`);
      const fault = await faultOf(findIdentity(home.join("node")));
      expect(fault).toMatchObject(lost);
      expect(fault.details["path"]).toMatch(/^identity\/(key\.pem|cert\.pem|gateway\.json)$/);
      expect(fault.hint).toContain("fairlead node join");
      expect(await faultOf(joinAs(code, home))).toMatchObject(lost);
      cpSync(kept, folder, { recursive: true });
    }
  }
  await loadIdentity(home.join("node"));
});

test("a key that others can read is refused with the command that repairs it", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  await joinAs((await gateway.pairing.invite({})).code, home);
  const key = home.join("node", "identity", "key.pem");
  chmodSync(key, 0o640);
  expect(await faultOf(loadIdentity(home.join("node")))).toMatchObject({
    code: "POLICY_DENIED",
    details: { side: "node" },
    hint: `chmod 600 ${key}`,
  });
  chmodSync(key, 0o600);
  await loadIdentity(home.join("node"));
});

test("without an identity the way to get one is said", async () => {
  await using home = await makeTempFolder();
  expect(await findIdentity(home.join("node"))).toBeUndefined();
  expect(await faultOf(loadIdentity(home.join("node")))).toMatchObject({
    code: "NOT_FOUND",
    hint: "fairlead node join CODE",
  });
});

test("leaving erases the identity also when the gateway cannot be told, and when a file of it is damaged", async () => {
  const gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  await using other = await makeTempFolder();
  const { code } = await gateway.pairing.invite({ uses: 2 });
  const { identity } = await joinAs(code, home);
  await joinAs(code, other);
  await gateway[Symbol.asyncDispose]();
  const left = await leaveGateway({ dir: home.join("node") });
  expect(left).toMatchObject({
    nodeId: identity.nodeId,
    told: false,
    fault: { code: "GATEWAY_UNREACHABLE" },
  });
  expect(await home.entries()).toEqual(["node"]);
  rmSync(other.join("node", "identity", "cert.pem"));
  expect(await leaveGateway({ dir: other.join("node") })).toMatchObject({
    nodeId: "",
    told: false,
    fault: lost,
  });
  expect(await other.entries()).toEqual(["node"]);
});
