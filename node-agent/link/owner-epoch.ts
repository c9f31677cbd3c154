import { Fault } from "../../shared/fault/fault.ts";
import { readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";

/** The highest epoch under which a gateway has owned this node. */
export interface OwnerEpoch {
  /**
   * Accepts an epoch that is not lower than any before, and keeps it before it resolves; a lower one gives a fault. A file
   * that cannot be read or written accepts nothing: `IO_ERROR`.
   */
  accept(epoch: bigint): Promise<Fault | undefined>;
}

/** The epoch that is kept in `file` for one identity of this machine; the file is made with the first one. */
export function createOwnerEpoch(file: string, nodeId: string): OwnerEpoch {
  let highest: bigint | undefined;
  return {
    accept: async (epoch) => {
      if (epoch === 0n) return undefined;
      highest ??= await readEpoch(file, nodeId);
      if (epoch < highest) return olderOwnerFault(epoch, highest);
      if (epoch === highest) return undefined;
      await writePrivateFile(file, `${JSON.stringify({ nodeId, epoch: String(epoch) })}\n`);
      highest = epoch;
      return undefined;
    },
  };
}

/** What was written for another identity says nothing about this one. */
async function readEpoch(file: string, nodeId: string): Promise<bigint> {
  const kept = await readPrivateFile(file);
  if (!kept) return 0n;
  const [, owner, epoch] = /^\{"nodeId":"([^"]*)","epoch":"(\d{1,20})"\}\s*$/.exec(kept.text) ?? [];
  if (epoch !== undefined) return owner === nodeId ? BigInt(epoch) : 0n;
  throw new Fault("IO_ERROR", `${file} does not hold the epoch that was written there`, {
    hint: `remove ${file} to accept the gateway that answers now`,
    details: { path: file },
  });
}

function olderOwnerFault(epoch: bigint, highest: bigint): Fault {
  return new Fault(
    "CONFLICT",
    `the gateway claims this node with epoch ${epoch}; it is owned since ${highest}`,
    {
      hint: "end the older gateway process: another one of the same identity has taken over since",
      details: { reason: "older_owner", expected: String(highest), actual: String(epoch) },
    },
  );
}
