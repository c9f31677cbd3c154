import { execFileSync } from "node:child_process";
import { chmod, chown, link, lstat, mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { makeTempFolder, type TempFolder } from "./temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "./temp-workspace.ts";

/** Names that are hard to carry, each of which must arrive byte for byte. */
export const hardNames: readonly string[] = [
  "line\nbreak.txt",
  "tab\tand\rreturn",
  "quote\"'`.txt",
  "fox-🦊.txt",
  "caf\u00e9",
  "cafe\u0301",
  "._leading",
  ".hidden",
  " outer spaces ",
  "-rf",
  "back\\slash",
  "co:lon",
  "$(touch injected)",
  "\u202egnp.exe",
  "n".repeat(255),
  "\u00e9".repeat(127),
];

/** A workspace as a machine may really have it. Disposing removes it with what it points to. */
export interface HostileWorkspace extends AsyncDisposable {
  readonly workspace: TempWorkspace;
  /** A file outside, which has a second name inside. */
  readonly outside: TempFolder;
}

/**
 * Makes a workspace that belongs to `ownerUid`: files with hard names, and below `bad/` what cannot be served: a link to
 * `/etc`, dangling and looping links, a second name of a file outside, a FIFO, a socket, a name that is not UTF-8, and a
 * folder and a file that only root may read.
 */
export async function makeHostileWorkspace(ownerUid: number): Promise<HostileWorkspace> {
  await using stack = new AsyncDisposableStack();
  const outside = stack.use(await makeTempFolder({ ownerUid }));
  const workspace = stack.use(
    await makeTempWorkspace(
      {
        "good/one.txt": "one",
        "good/empty.txt": "",
        "good/run.sh": "#!/bin/sh\n",
        "good/empty/": "",
        "bad/plain.txt": "plain",
        "bad/closed/secret.txt": "secret",
        "bad/unreadable.txt": "secret",
        ...Object.fromEntries(hardNames.map((name) => [`names/${name}`, `content of ${name}`])),
      },
      { ownerUid },
    ),
  );
  const at = (path: string): string => workspace.join(path);
  await chmod(at("good/run.sh"), 0o755);
  await symlink("one.txt", at("good/inside"));
  await symlink("../good", at("good/folder"));
  await symlink("/etc", at("bad/etc"));
  await symlink("../../../outside", at("bad/up"));
  await symlink("nowhere", at("bad/dangling"));
  await symlink("loop", at("bad/loop"));
  await writeFile(outside.join("outside.txt"), "outside");
  await chown(outside.join("outside.txt"), ownerUid, ownerUid);
  await link(outside.join("outside.txt"), at("bad/hard.txt"));
  execFileSync("mkfifo", [at("bad/fifo")]);
  await leaveSocket(at("bad/socket"));
  await writeFile(Buffer.concat([Buffer.from(`${at("bad")}/not-`), Buffer.from([0xff, 0xfe])]), "bytes");
  await mkdir(at("bad/kept"));
  await writeFile(at("bad/kept/root-only.txt"), "secret", { mode: 0o600 });
  for (const name of ["bad/closed", "bad/kept"]) await chown(at(name), 0, 0);
  await chmod(at("bad/closed"), 0o700);
  await chown(at("bad/unreadable.txt"), 0, 0);
  await chmod(at("bad/unreadable.txt"), 0o600);
  const owned = stack.move();
  return { workspace, outside, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A socket that nobody listens on any more. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(`${path}.live`, resolve);
  await promise;
  await link(`${path}.live`, path);
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  await closed.promise;
  if (!(await lstat(path)).isSocket()) throw new Error("no socket was left");
}
