import { copyFile, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { writeBackup } from "../../../gateway/store/backup.ts";
import { finishRestore } from "../../../gateway/store/finish-restore.ts";
import { restoreBackup } from "../../../gateway/store/restore.ts";
import { putSetting } from "../../../gateway/store/settings.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

interface Home extends AsyncDisposable {
  readonly folder: TempFolder;
  readonly dir: string;
  readonly backup: string;
}

/** A home with a store, and a backup of what it was before the last change. */
async function makeHome(): Promise<Home> {
  const folder = await makeTempFolder();
  const dir = folder.join("home", "gateway");
  const backup = folder.join("state.backup");
  await mkdir(folder.join("home"));
  await using store = await openStore({ dir });
  await mkdir(folder.join("home", "gateway", "authority", "next"), { recursive: true });
  await writeFile(folder.join("home", "gateway", "authority", "next", "key.pem"), "next");
  await writeFile(folder.join("home", "gateway", "authority", "key.pem"), "first");
  await putSetting(store.db, "word", { value: "first", now: 1 });
  await writeBackup({ store, dir, file: backup, version: "1.2.3", now: 7 });
  await putSetting(store.db, "word", { value: "second", now: 2 });
  await writeFile(folder.join("home", "gateway", "authority", "key.pem"), "second");
  return { folder, dir, backup, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

/** Every file of the home with its bytes; locks come and go. */
async function bytesOf({ folder }: Home): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await folder.entries()) {
    if (!entry.startsWith("home/") || /lock|-shm$/.test(entry)) continue;
    const bytes = await readFile(folder.join(entry)).catch(() => undefined);
    if (bytes) found[entry] = bytes.toString("base64");
  }
  return found;
}

async function wordOf(dir: string): Promise<string> {
  const database = new DatabaseSync(`${dir}/state.db`);
  try {
    return String(
      database.prepare("SELECT value_json FROM settings WHERE key = 'word'").get()?.["value_json"],
    );
  } finally {
    database.close();
  }
}

async function refusalOf(home: Home, file: string): Promise<unknown> {
  try {
    return await restoreBackup({ file, dir: home.dir, now: 9 });
  } catch (error) {
    const { code, hint } = faultFromError(error);
    return { code, hasHint: hint !== undefined };
  }
}

proves(
  "fleet.restore-bad-backup",
  "a backup that is cut, altered, of another kind or of a newer version is refused, and the home stays as it was",
  async () => {
    await using home = await makeHome();
    const whole = await readFile(home.backup);
    const before = await bytesOf(home);
    const bad = home.folder.join("bad.backup");
    const altered = Buffer.from(whole);
    const at = altered.indexOf("first", altered.indexOf("authority/key.pem"));
    altered[at === -1 ? altered.lastIndexOf("first") : at] = 0x46;
    const files: readonly Buffer[] = [
      whole.subarray(0, whole.byteLength - 5_000),
      whole.subarray(0, 2_000),
      Buffer.alloc(0),
      altered,
      Buffer.from("not a database at all, but long enough to look like a file of some kind"),
      await readFile(`${home.dir}/state.db`),
    ];
    for (const bytes of files) {
      await writeFile(bad, bytes);
      expect(await refusalOf(home, bad)).toEqual({ code: "INTEGRITY_FAILURE", hasHint: true });
    }
    // A row that was changed, in a database that is whole.
    await copyFile(home.backup, bad);
    const changed = new DatabaseSync(bad);
    changed.exec("UPDATE settings SET value_json = '\"third\"'");
    changed.close();
    expect(await refusalOf(home, bad)).toEqual({ code: "INTEGRITY_FAILURE", hasHint: true });
    await copyFile(home.backup, bad);
    const database = new DatabaseSync(bad);
    database.exec("UPDATE backup_info SET format = 99");
    database.close();
    expect(await refusalOf(home, bad)).toEqual({ code: "VERSION_UNSUPPORTED", hasHint: true });
    expect(await refusalOf(home, home.folder.join("missing"))).toMatchObject({ code: "NOT_FOUND" });
    expect(await bytesOf(home)).toEqual(before);
  },
);

test("a file of a backup cannot be placed outside of the gateway's folder", async () => {
  await using home = await makeHome();
  for (const place of ["../escaped", "/tmp/escaped", "authority/../../escaped", "a//escaped", ""]) {
    const bad = home.folder.join("bad.backup");
    await copyFile(home.backup, bad);
    const database = new DatabaseSync(bad);
    database.prepare("UPDATE backup_files SET path = ? WHERE path = 'authority/key.pem'").run(place);
    database.close();
    expect(await refusalOf(home, bad)).toMatchObject({ code: "INTEGRITY_FAILURE" });
  }
  expect((await home.folder.entries()).filter((entry) => entry.includes("escaped"))).toEqual([]);
});

test("a restore puts store and files back, keeps the state from before, and leaves nothing else", async () => {
  await using home = await makeHome();
  const { before, version, madeAt } = await restoreBackup({ file: home.backup, dir: home.dir, now: 9 });
  expect({ version, madeAt }).toEqual({ version: "1.2.3", madeAt: 7 });
  expect(await wordOf(home.dir)).toBe('"first"');
  expect(await readFile(`${home.dir}/authority/key.pem`, "utf8")).toBe("first");
  expect(await readFile(`${home.dir}/authority/next/key.pem`, "utf8")).toBe("next");
  expect(await wordOf(before ?? "")).toBe('"second"');
  const beside = (await home.folder.entries()).filter((entry) => /^home\/[^/]+$/.test(entry));
  expect(beside).toEqual(["home/gateway", "home/gateway.before-9"]);
  await using store = await openStore({ dir: home.dir });
  expect(store.schema).toBeGreaterThan(0);
});

test("a restore that is cut between its renames is finished at the next start, or never was", async () => {
  await using home = await makeHome();
  await restoreBackup({ file: home.backup, dir: home.dir, now: 9 });
  // The new state is whole, the old one has been moved away.
  await rename(home.dir, `${home.dir}.restored`);
  await finishRestore(home.dir);
  expect(await wordOf(home.dir)).toBe('"first"');
  // The new state is whole, and the old one still stands.
  await rename(home.dir, `${home.dir}.restored`);
  await rename(`${home.dir}.before-9`, home.dir);
  await finishRestore(home.dir);
  expect(await wordOf(home.dir)).toBe('"second"');
  expect((await home.folder.entries()).filter((entry) => entry.includes("restored"))).toEqual([]);
  await rm(home.dir, { recursive: true });
  await finishRestore(home.dir);
  expect(await home.folder.entries()).not.toContain("home/gateway");
});
