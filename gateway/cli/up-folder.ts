import { cp, lstat, mkdtemp, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import { packageRoot } from "../../shared/config/package-root.ts";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { makePrivateFolder } from "../../shared/identity/private-files.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";

/** The folder that `up` exports, absolute: the one that is named, this one, or with `--sample` a copy of the sample. */
export async function chooseUpFolder(input: CommandInput, runtime: Pick<Runtime, "home">): Promise<string> {
  const named = input.maybeArgument("dir");
  if (!input.flag("sample")) return await assertUsable(path.resolve(named ?? "."), runtime.home.dir);
  if (named === undefined) return await placeSample(runtime.home.dir);
  throw new Fault("INVALID_ARGUMENT", "--sample stands instead of a folder, and both were given", {
    hint: "fairlead up --sample",
    details: { field: "sample" },
  });
}

async function assertUsable(dir: string, homeDir: string): Promise<string> {
  const real = await toRealFolder(dir);
  const home = await realpath(homeDir).catch(() => homeDir);
  if (real !== home && !real.startsWith(home + path.sep)) return real;
  throw new Fault("POLICY_DENIED", `${dir} holds Fairlead's own state`, {
    hint: "name the folder that is meant: fairlead up DIR",
    details: { side: "node", rule: "workspace.home" },
  });
}

const hint = "make the folder first, or name one that is there: fairlead up DIR";

async function toRealFolder(dir: string): Promise<string> {
  try {
    const real = await realpath(dir);
    if ((await lstat(real)).isDirectory()) return real;
  } catch (error) {
    const fault = faultFromErrno(error, dir);
    throw isFault(fault, "NOT_FOUND") ? fault.with({ hint }) : fault;
  }
  throw new Fault("NOT_A_DIRECTORY", `${dir} is not a folder`, { hint, details: { path: dir } });
}

/** Copies the sample into the home when it is not there; a copy that was cut off is no sample. */
async function placeSample(homeDir: string): Promise<string> {
  const target = path.join(homeDir, "sample");
  if (await exists(target)) return await realpath(target);
  await makePrivateFolder(homeDir);
  const staged = await mkdtemp(path.join(homeDir, ".sample-"));
  try {
    await cp(path.join(packageRoot(), "gateway", "sample"), staged, { recursive: true });
    await rename(staged, target);
  } catch (error) {
    await rm(staged, { recursive: true, force: true });
    throw faultFromErrno(error, target);
  }
  return await realpath(target);
}

async function exists(file: string): Promise<boolean> {
  try {
    await lstat(file);
    return true;
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return false;
    throw faultFromErrno(error, file);
  }
}
