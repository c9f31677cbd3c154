import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename } from "node:path";
import { expect } from "vitest";
import { makeTempFolder } from "./temp-folder.ts";

/** A real systemd of a user, in namespaces of its own. Disposing ends it with every service that it runs. */
export interface UserSystemd extends AsyncDisposable {
  /** For programs that are to reach it. */
  readonly env: Readonly<Record<string, string>>;
  /** Where its units and drop-ins lie. */
  readonly unitFolder: string;
  /** Runs `systemctl --user` and gives what it printed, trimmed. */
  control(args: readonly string[]): Promise<string>;
}

const systemd = "/lib/systemd/systemd";

/** Whether this process may start one: only root can, where systemd is installed. */
export function canRunSystemd(): boolean {
  return process.getuid?.() === 0 && existsSync(systemd);
}

const ownControlGroups = `
umount --lazy --recursive /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
`;

/**
 * Its control groups are made below one of its own, which is the top for it; `/run` is its own too, so that the machine
 * does not look as if systemd had started it.
 */
const startScript = `
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
${ownControlGroups}
mkdir /sys/fs/cgroup/$1
echo $$ > /sys/fs/cgroup/$1/cgroup.procs
exec unshare --cgroup sh -e -c '${ownControlGroups} exec ${systemd} --user'
`;

const endScript = `
${ownControlGroups}
echo 1 > /sys/fs/cgroup/$1/cgroup.kill
find /sys/fs/cgroup/$1 -depth -type d -exec rmdir {} + 2> /dev/null
`;

/** Starts it, with nothing to run, and waits until it answers. */
export async function startUserSystemd(): Promise<UserSystemd> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const name = basename(folder.path);
  const env = {
    XDG_RUNTIME_DIR: folder.join("run"),
    XDG_CONFIG_HOME: folder.join("config"),
  };
  const unitFolder = folder.join("config", "systemd", "user");
  await mkdir(folder.join("run"), { mode: 0o700 });
  await mkdir(unitFolder, { recursive: true });
  const variables = { ...env, PATH: process.env["PATH"] ?? "", HOME: folder.path };
  const run = async (file: string, args: readonly string[]): Promise<string> => {
    const child = spawn(file, args, { env: variables, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    const [status] = (await once(child, "close")) as unknown[];
    if (status !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${String(status)}: ${output}`);
    return output.trim();
  };
  const unshare = ["--mount", "sh", "-e", "-c"];
  const manager = spawn("unshare", [...unshare, startScript, "sh", name], {
    env: variables,
    stdio: "ignore",
  });
  const ended = once(manager, "close");
  stack.defer(async () => {
    // What was killed needs a moment until its control group is empty.
    await expect
      .poll(() => run("unshare", [...unshare, endScript, "sh", name]).then(() => "gone", String))
      .toBe("gone");
    await ended;
  });
  const control = (args: readonly string[]): Promise<string> => run("systemctl", ["--user", ...args]);
  await expect.poll(() => existsSync(folder.join("run", "systemd", "private"))).toBe(true);
  await control(["show", "--property=Version"]);
  const owned = stack.move();
  return { env, unitFolder, control, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
