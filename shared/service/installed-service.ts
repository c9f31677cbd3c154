import { access, mkdir, readFile, rm, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import path from "node:path";
import { resolveHome } from "../config/home.ts";
import { errnoOf, faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";
import { writePrivateFile } from "../identity/private-files.ts";
import type { Runtime } from "../terminal/runtime.ts";
import { openSystemd, type Systemd, type ServiceState } from "./systemd.ts";
import { finalStatuses, serviceName, type ServiceProgram, type ServiceScope, unitFile } from "./unit-file.ts";

/** The service of one program in one home. */
export interface ServicePlace {
  readonly program: ServiceProgram;
  /** Its name for systemd, without the ending. */
  readonly name: string;
  readonly scope: ServiceScope;
  /** Its unit file. */
  readonly file: string;
}

/** What a command of the service stands on. */
export type ServiceRuntime = Pick<
  Runtime,
  "home" | "environment" | "entry" | "clock" | "input" | "output" | "signal"
>;

/** A service and how it is. */
export interface PlaceWithStatus extends ServicePlace {
  readonly status: ServiceState;
}

const systemFolder = "/etc/systemd/system";

/** Where the service of this home stands, or would stand. */
export function servicePlace(
  { home, environment }: Pick<Runtime, "home" | "environment">,
  program: ServiceProgram,
  scope: ServiceScope,
): ServicePlace {
  const name = serviceName(program, home.dir, resolveHome({ environment: { home: undefined } }).dir);
  const configDir = environment.configDir ?? path.join(environment.userHome, ".config");
  const folder = scope === "system" ? systemFolder : path.join(configDir, "systemd/user");
  return { program, name, scope, file: path.join(folder, `${name}.service`) };
}

/** The unit file of a place, with the arguments that follow `run`. */
export async function unitTextOf(
  runtime: ServiceRuntime,
  place: ServicePlace,
  args: readonly string[],
): Promise<string> {
  const { entry, environment, home } = runtime;
  const { program, scope } = place;
  const uid = scope === "system" ? await ownerOf(home.dir) : 0;
  return unitFile({
    program,
    scope,
    command: [process.execPath, entry, program, "run", "--home", home.dir, ...args],
    path: environment.path,
    ...(uid === 0 ? {} : { uid }),
  });
}

/** Writes the unit file, and starts the service now and at every start of the machine. */
export async function installService(
  runtime: ServiceRuntime,
  place: ServicePlace,
  args: readonly string[],
): Promise<PlaceWithStatus> {
  const systemd = await openSystemdOf(runtime, place);
  const text = await unitTextOf(runtime, place, args);
  const { name, file } = place;
  try {
    await mkdir(path.dirname(file), { recursive: true });
  } catch (error) {
    throw faultFromErrno(error, path.dirname(file));
  }
  // Nothing of it is secret, and who looks after the machine may look at it; but nobody else may write it.
  if ((await readFile(file, "utf8").catch(() => "")) !== text) await writePrivateFile(file, text);
  await systemd.control(["daemon-reload"]);
  await systemd.control(["enable", name]);
  await systemd.control(["restart", name]);
  const status = await systemd.show(name);
  if (status.file === file) return { ...place, status };
  throw new Fault("IO_ERROR", `systemd took ${status.file || "no file"} for ${name}, not ${file}`, {
    hint: `systemctl --${place.scope} status ${name}`,
  });
}

/** Stops the service and takes its unit file away; drop-ins stay. */
export async function uninstallService(runtime: ServiceRuntime, place: ServicePlace): Promise<void> {
  const systemd = await openSystemdOf(runtime, place);
  await systemd.control(["disable", "--now", place.name]);
  try {
    await rm(place.file, { force: true });
  } catch (error) {
    throw faultFromErrno(error, path.basename(place.file));
  }
  await systemd.control(["daemon-reload"]);
}

/** The systemd of a place. */
export function openSystemdOf(runtime: ServiceRuntime, { program, scope }: ServicePlace): Promise<Systemd> {
  const { environment, clock } = runtime;
  const uid = process.getuid?.() ?? 0;
  return openSystemd({
    scope,
    clock,
    hint: `run it under a supervisor of your own: fairlead ${program} run; it must not be started again after status ${finalStatuses.join(", ")}`,
    variables: {
      PATH: environment.path,
      HOME: environment.userHome,
      XDG_RUNTIME_DIR: environment.runtimeDir ?? `/run/user/${uid}`,
      ...(environment.busAddress === undefined ? {} : { DBUS_SESSION_BUS_ADDRESS: environment.busAddress }),
      ...(environment.configDir === undefined ? {} : { XDG_CONFIG_HOME: environment.configDir }),
    },
  });
}

/** Where the service of this home is installed; `NOT_FOUND` when it is not. */
export async function findService(runtime: ServiceRuntime, program: ServiceProgram): Promise<ServicePlace> {
  for (const scope of ["user", "system"] as const) {
    const place = servicePlace(runtime, program, scope);
    try {
      await access(place.file);
      return place;
    } catch (error) {
      if (errnoOf(error) !== "ENOENT") throw faultFromErrno(error, path.basename(place.file));
    }
  }
  throw new Fault("NOT_FOUND", `no service is installed for the ${program} of this home`, {
    hint: `fairlead ${program} install`,
  });
}

/** What whoever installs a service should know about this machine; empty: nothing. */
export async function serviceNotes(runtime: ServiceRuntime, place: ServicePlace): Promise<readonly string[]> {
  const notes: string[] = [];
  const { username } = userInfo();
  if (place.scope === "user" && !(await exists(`/var/lib/systemd/linger/${username}`)))
    notes.push(
      `note: it runs while ${username} is logged in; to have it run always: loginctl enable-linger ${username}`,
    );
  if (runtime.entry.includes("/_npx/"))
    notes.push(
      "note: it was started by npx, whose copy may be removed; better: npm install -g fairlead, then install again",
    );
  return notes;
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}

/** A system service runs as the user whose home it serves. */
async function ownerOf(dir: string): Promise<number> {
  try {
    return (await stat(dir)).uid;
  } catch (error) {
    throw faultFromErrno(error, path.basename(dir));
  }
}
