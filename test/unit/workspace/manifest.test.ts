import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { digestFolder } from "../../../shared/content/folder-digest.ts";
import { type Clock, systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type ReadManifest, readManifestOf } from "./read-manifest.ts";
import { exportOf, openTempExports, type TempExports } from "./temp-exports.ts";

const manifestOf = (
  temp: TempExports,
  path?: string,
  more: { readonly knownDigest?: string; readonly shallow?: boolean } = {},
): Promise<ReadManifest> => readManifestOf(temp.manifest(path, more));

const past = new Date(Date.now() - 3_600_000);

/** Writes files whose last change lies so far back that a digest of now is to be trusted. */
function fill(dir: string, files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(dir, path, ".."), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
}

/** A clock whose reading always lies behind the last change. */
const later: Clock = { ...systemClock, now: () => Date.now() + 10_000 };

test("a manifest has a digest for each file and for each folder, in the order of whole paths", async () => {
  await using temp = await openTempExports((dir) => {
    fill(dir, { "b/x": "x", "b.txt": "b", a: "a" });
    symlinkSync("b/x", join(dir, "link"));
  });
  const { digest, entries, trailer } = await manifestOf(temp);
  const x = { kind: "file", name: "x", mode: 0o644, content: digestOf("x") } as const;
  const b = { kind: "folder", name: "b", mode: 0o755, content: digestFolder([x]) } as const;
  expect(Object.entries(entries)).toEqual([
    ["a", digestOf("a")],
    ["b", b.content],
    ["b.txt", digestOf("b")],
    ["b/x", digestOf("x")],
    ["link", ""],
  ]);
  const file = { kind: "file", mode: 0o644 } as const;
  expect(digest).toBe(
    digestFolder([
      { ...file, name: "a", content: digestOf("a") },
      b,
      { ...file, name: "b.txt", content: digestOf("b") },
      { kind: "link", name: "link", mode: 0, content: "b/x" },
    ]),
  );
  expect(trailer).toMatchObject({
    files: 3n,
    folders: 1n,
    links: 1n,
    sizeBytes: 3n,
    failed: 0n,
    hashedFiles: 3n,
  });
});

test("an unchanged folder is one message, and a shallow manifest has only its own entries", async () => {
  await using temp = await openTempExports((dir) => fill(dir, { "a/b/c": "c", "a/d": "d", e: "e" }), {
    clock: later,
  });
  const whole = await manifestOf(temp);
  const again = await manifestOf(temp, "", { knownDigest: whole.digest });
  expect(again).toMatchObject({ unchanged: true, messages: 1, entries: {}, digest: whole.digest });
  const shallow = await manifestOf(temp, "a", { shallow: true });
  expect(Object.keys(shallow.entries)).toEqual(["b", "d"]);
  expect(shallow.digest).toBe(whole.entries["a"]);
  expect(shallow.entries["b"]).toBe(whole.entries["a/b"]);
  const other = await faultOf(manifestOf(temp, "e"));
  expect(other.code).toBe("NOT_A_DIRECTORY");
  expect((await faultOf(manifestOf(temp, "", { knownDigest: "x" }))).details["field"]).toBe("knownDigest");
});

test("only what changed is read again, and a change of one file changes the digests above it alone", async () => {
  await using temp = await openTempExports((dir) => fill(dir, { "a/x": "1", "b/y": "2", "b/z": "3" }), {
    clock: later,
  });
  const before = await manifestOf(temp);
  expect(before.trailer?.hashedFiles).toBe(3n);
  writeFileSync(join(temp.dir, "a/x"), "4");
  const after = await manifestOf(temp);
  expect(after.trailer?.hashedFiles).toBe(1n);
  expect(after.entries["a"]).not.toBe(before.entries["a"]);
  expect(after.entries["b"]).toBe(before.entries["b"]);
  rmSync(join(temp.dir, "a/x"));
  chmodSync(join(temp.dir, "b/y"), 0o600);
  const last = await manifestOf(temp);
  expect(Object.keys(last.entries)).toEqual(["a", "b", "b/y", "b/z"]);
  expect(last.entries["b"]).not.toBe(before.entries["b"]);
});

test("what is denied is not in a manifest, and a denial that comes or goes is seen at once", async () => {
  await using temp = await openTempExports((dir) => fill(dir, { "a.pem": "s", "b.txt": "b", "c/d": "d" }));
  const before = await manifestOf(temp);
  expect(Object.keys(before.entries)).toEqual(["b.txt", "c", "c/d"]);
  await temp.exports.apply([exportOf(temp.dir, { deny: ["c/**", "!**/*.pem"] })]);
  const after = await manifestOf(temp);
  expect(Object.keys(after.entries)).toEqual(["a.pem", "b.txt"]);
  expect((await faultOf(manifestOf(temp, "c"))).code).toBe("POLICY_DENIED");
});

test("what cannot be read is a problem, and part of the digest", async () => {
  await using temp = await openTempExports((dir) => {
    fill(dir, { "a.txt": "a" });
    linkSync(join(dir, "a.txt"), join(dir, "b.txt"));
    symlinkSync("gone", join(dir, "dangling"));
    symlinkSync("/etc", join(dir, "out"));
    symlinkSync("loop", join(dir, "loop"));
  });
  const { problems, entries, digest, trailer } = await manifestOf(temp);
  expect(Object.keys(problems)).toEqual(["a.txt", "b.txt", "dangling", "loop", "out"]);
  expect([entries, trailer?.failed]).toEqual([{}, 5n]);
  rmSync(join(temp.dir, "loop"));
  expect((await manifestOf(temp)).digest).not.toBe(digest);
});

test("a tree over the limits is refused", async () => {
  await using temp = await openTempExports((dir) => fill(dir, { "1": "", "2": "", "3/4": "" }), {
    limits: { treeEntries: 3, treeDepth: 64 },
  });
  expect(await faultOf(manifestOf(temp))).toMatchObject({
    code: "LIMIT_REACHED",
    details: { limit: 3, actual: 4 },
  });
});

test("a digest is trusted when the file's last change lies before the tick of its reading, and else read again", async () => {
  // The clock stands: a digest is taken in the very tick of the change, as far as anybody can tell.
  const standing = {
    ...later,
    now: () => Number(statSync(join(temp.dir, "a"), { bigint: true }).ctimeNs / 1_000_000n),
  };
  await using temp = await openTempExports((dir) => fill(dir, { a: "a" }), {
    clock: { ...systemClock, now: () => standing.now() },
  });
  expect((await manifestOf(temp)).trailer?.hashedFiles).toBe(1n);
  expect((await manifestOf(temp)).trailer?.hashedFiles).toBe(1n);
  standing.now = () => Date.now() + 60_000;
  expect((await manifestOf(temp)).trailer?.hashedFiles).toBe(1n);
  expect((await manifestOf(temp)).trailer?.hashedFiles).toBe(0n);
  // Same size, same modification time: the change time tells.
  utimesSync(join(temp.dir, "a"), past, past);
  await manifestOf(temp);
  writeFileSync(join(temp.dir, "a"), "b");
  utimesSync(join(temp.dir, "a"), past, past);
  const edited = await manifestOf(temp);
  expect([edited.entries["a"], edited.trailer?.hashedFiles]).toEqual([digestOf("b"), 1n]);
});

test("what is kept concerns all that was ever read, and what was cut or altered is read again", async () => {
  await using temp = await openTempExports((dir) => fill(dir, { "a/x": "1", "b/y": "2", "b/c/z": "3" }), {
    clock: later,
  });
  const whole = await manifestOf(temp);
  await temp.restartManifests();
  // Only a part is looked at: the rest is kept on.
  expect((await manifestOf(temp, "a")).trailer?.hashedFiles).toBe(0n);
  writeFileSync(join(temp.dir, "a/x"), "4");
  await manifestOf(temp, "a");
  await temp.restartManifests();
  expect((await manifestOf(temp)).trailer?.hashedFiles).toBe(0n);
  const file = join(temp.homeDir, "node", "manifest", "app.manifest");
  const text = readFileSync(file, "utf8");
  const damaged = [
    "",
    text.slice(0, -1),
    text.slice(0, text.length / 2),
    text.replace(digestOf("2"), digestOf("5")),
    text.replace("b/c", "b/d"),
    `${text}${text}`,
    text.replace('{"manifest":1}', '{"manifest":2}'),
    "\u0000".repeat(1000),
  ];
  for (const content of damaged) {
    await temp.restartManifests(() => writeFileSync(file, content));
    const { entries, trailer } = await manifestOf(temp);
    expect({ ...entries, a: "", "a/x": "" }).toEqual({ ...whole.entries, a: "", "a/x": "" });
    expect([trailer?.files, trailer?.hashedFiles]).toEqual([3n, 3n]);
  }
});
