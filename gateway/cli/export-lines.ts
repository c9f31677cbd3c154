import { open, rename, rm } from "node:fs/promises";
import path from "node:path";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";

/**
 * Writes lines into a new file for its owner alone, as a whole or not at all, and says how many they were.
 * `ALREADY_EXISTS` when the name is taken; faults of the lines come through.
 */
export async function exportLines(file: string, lines: AsyncIterable<string>): Promise<number> {
  const place = path.resolve(file);
  const stage = `${place}.${process.pid}.new`;
  // The name itself is taken first: nothing is read for a file that may not be written.
  await using claim = await claimName(place);
  let count = 0;
  try {
    await using handle = await open(stage, "wx", privateFileMode);
    let batch = "";
    for await (const line of lines) {
      batch += `${line}\n`;
      count += 1;
      if (batch.length < 1_048_576) continue;
      await handle.appendFile(batch);
      batch = "";
    }
    await handle.appendFile(batch);
    await handle.sync();
    await rename(stage, place);
    await syncFolder(path.dirname(place));
    claim.keep();
    return count;
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
