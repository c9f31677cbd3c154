import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findProgram, freePort, runMeasured, startServer, type Server } from "./processes.ts";

/** The programs that files are compared with; undefined for each that is not installed here. */
export interface Peers extends AsyncDisposable {
  readonly ssh: SshPeer | undefined;
  readonly daemon: DaemonPeer | undefined;
  /** What is missing, in words. */
  readonly missing: readonly string[];
}

/** An sshd of our own with throwaway keys. */
export interface SshPeer {
  readonly server: Server;
  /** `rsync -a` from and to a folder of this machine over ssh. */
  rsync(from: string, to: string, way: "pull" | "push"): readonly string[];
  /** `scp -p`, the same way. */
  scp(from: string, to: string, way: "pull" | "push"): readonly string[];
}

/** An rsync daemon of our own, without encryption. */
export interface DaemonPeer {
  readonly server: Server;
  /** The same; paths of the daemon's side lie in the folder that it was started with. */
  rsync(from: string, to: string, way: "pull" | "push"): readonly string[];
}

/** Starts what is installed. `folder` is the bench's own: keys and configurations go there, the daemon serves it. */
export async function startPeers(folder: string): Promise<Peers> {
  await using stack = new AsyncDisposableStack();
  const [rsync, sshd, scp] = await Promise.all(["rsync", "sshd", "scp"].map((name) => findProgram(name)));
  const ssh = sshd && rsync && scp ? await startSsh(folder, sshd) : undefined;
  const daemon = rsync ? await startDaemon(folder, rsync) : undefined;
  if (ssh) stack.use(ssh.server);
  if (daemon) stack.use(daemon.server);
  const owned = stack.move();
  return {
    ssh,
    daemon,
    missing: [
      ...(rsync ? [] : ["rsync (apt-get install rsync)"]),
      ...(sshd && scp ? [] : ["sshd and scp (apt-get install openssh-server openssh-client)"]),
    ],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startSsh(folder: string, sshd: string): Promise<SshPeer> {
  const keys = join(folder, "ssh");
  await mkdir(keys, { recursive: true, mode: 0o700 });
  await mkdir("/run/sshd", { recursive: true });
  for (const name of ["host", "client"]) {
    await runMeasured(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", join(keys, name)], {
      timeoutMs: 20_000,
    });
  }
  await runMeasured(["cp", join(keys, "client.pub"), join(keys, "authorized")], { timeoutMs: 20_000 });
  await chmod(join(keys, "authorized"), 0o600);
  const port = await freePort();
  const settings = [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${join(keys, "host")}`,
    `AuthorizedKeysFile ${join(keys, "authorized")}`,
    "PidFile none",
    "PermitRootLogin prohibit-password",
    "PasswordAuthentication no",
    "UsePAM no",
    "StrictModes no",
    "Subsystem sftp internal-sftp",
  ];
  await writeFile(join(keys, "sshd_config"), `${settings.join("\n")}\n`);
  const server = await startServer([sshd, "-D", "-e", "-f", join(keys, "sshd_config")], port);
  const answers = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "BatchMode=yes",
  ];
  const common = [...answers.flatMap((answer) => ["-o", answer]), "-i", join(keys, "client")];
  const remote = (path: string): string => `127.0.0.1:${path}`;
  const ends = (from: string, to: string, way: "pull" | "push"): readonly string[] =>
    way === "pull" ? [remote(from), to] : [from, remote(to)];
  return {
    server,
    rsync: (from, to, way) => [
      "rsync",
      "-a",
      "-e",
      ["ssh", "-F", "none", "-p", port, ...common].join(" "),
      ...ends(from, to, way),
    ],
    scp: (from, to, way) => [
      "scp",
      "-F",
      "none",
      "-q",
      "-p",
      "-P",
      String(port),
      ...common,
      ...ends(from, to, way),
    ],
  };
}

async function startDaemon(folder: string, rsync: string): Promise<DaemonPeer> {
  const port = await freePort();
  const file = join(folder, "rsyncd.conf");
  const settings = [
    "use chroot = no",
    "uid = 0",
    "gid = 0",
    "[bench]",
    `path = ${folder}`,
    "read only = no",
    "munge symlinks = no",
  ];
  await writeFile(file, `${settings.join("\n")}\n`);
  const server = await startServer(
    [rsync, "--daemon", "--no-detach", "--address=127.0.0.1", `--port=${port}`, `--config=${file}`],
    port,
  );
  const remote = (path: string): string => `rsync://127.0.0.1:${port}/bench${path.slice(folder.length)}`;
  return {
    server,
    rsync: (from, to, way) => ["rsync", "-a", ...(way === "pull" ? [remote(from), to] : [from, remote(to)])],
  };
}
