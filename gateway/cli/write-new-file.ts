import { open, rename, rm } from "node:fs/promises";
import path from "node:path";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";

/**
 * Writes a new file for its owner alone, as a whole or not at all, and gives its size in bytes. `check` looks at it
 * before it gets its name. `ALREADY_EXISTS` when the name is taken; faults of the parts and of `check` come through.
 */
export async function writeNewFile(
  file: string,
  parts: AsyncIterable<Uint8Array>,
  check?: (stage: string) => Promise<void>,
): Promise<number> {
  const place = path.resolve(file);
  const stage = `${place}.${process.pid}.new`;
  // The name itself is taken first: nothing is asked for that may not be written.
  await using claim = await claimName(place);
  let sizeBytes = 0;
  try {
    await using handle = await open(stage, "wx", privateFileMode);
    for await (const bytes of parts) {
      await handle.appendFile(bytes);
      sizeBytes += bytes.byteLength;
    }
    await handle.sync();
    await check?.(stage);
    await rename(stage, place);
    await syncFolder(path.dirname(place));
    claim.keep();
    return sizeBytes;
  } catch (error) {
    throw faultFromErrno(error, path.basename(file));
  } finally {
    await rm(stage, { force: true });
  }
}

interface Claim extends AsyncDisposable {
  /** The name stays taken. */
  keep(): void;
}

async function claimName(place: string): Promise<Claim> {
  try {
    const made = await open(place, "wx", privateFileMode);
    await made.close();
  } catch (error) {
    if (errnoOf(error) === "ENOENT") {
      const folder = path.dirname(place);
      throw new Fault("NOT_FOUND", `there is no folder ${folder} to write ${path.basename(place)} into`, {
        hint: `mkdir -p ${folder}`,
        details: { field: "file" },
      });
    }
    throw faultFromErrno(error, path.basename(place));
  }
  let isKept = false;
  return {
    keep: () => {
      isKept = true;
    },
    [Symbol.asyncDispose]: async () => {
      if (!isKept) await rm(place, { force: true });
    },
  };
}
