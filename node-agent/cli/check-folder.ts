import { realpath, stat } from "node:fs/promises";
import path from "node:path";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";

/**
 * Whether a folder may be exported. `/` is `INVALID_ARGUMENT`, a missing one `NOT_FOUND`, a file `NOT_A_DIRECTORY`, one
 * that is the home or lies in it `POLICY_DENIED`. A folder that contains the home may be exported: the home stays closed.
 */
export async function assertExportable(dir: string, homeDir: string): Promise<void> {
  const real = await realFolder(dir);
  if (real === path.parse(real).root) {
    throw new Fault("INVALID_ARGUMENT", `${dir} is the whole disk`, {
      hint: "export the folder that is meant",
      details: { field: "dir" },
    });
  }
  const home = await realpath(homeDir).catch(() => path.resolve(homeDir));
  if (real === home || real.startsWith(home + path.sep)) {
    throw new Fault("POLICY_DENIED", `${dir} holds Fairlead's own state`, {
      hint: "export another folder",
      details: { side: "node", rule: "workspace.home" },
    });
  }
}

const hint = "make the folder first, or name one that is there";

async function realFolder(dir: string): Promise<string> {
  try {
    const real = await realpath(dir);
    if ((await stat(real)).isDirectory()) return real;
  } catch (error) {
    const fault = faultFromErrno(error, dir);
    throw isFault(fault, "NOT_FOUND") ? fault.with({ hint }) : fault;
  }
  throw new Fault("NOT_A_DIRECTORY", `${dir} is not a folder`, { hint, details: { path: dir } });
}
