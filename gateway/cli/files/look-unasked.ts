import { Fault, isFault } from "../../../shared/fault/fault.ts";
import type { Entry } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Remote } from "./remote.ts";
import type { Transfer } from "./transfer.ts";

/**
 * What stands at `remote`; undefined where a person would have to be asked about that. The transfer then does without: it
 * is one operation, and asks once. Faults as `Files.Stat`.
 */
export async function lookUnasked(
  { files, call }: Transfer,
  { workspace, path }: Remote,
): Promise<Entry | undefined> {
  try {
    const { entry } = await files.stat({ workspace, path, askNobody: true }, call);
    if (!entry) throw new Fault("INTERNAL", "the answer holds no entry");
    return entry;
  } catch (error) {
    if (isFault(error, "APPROVAL_DENIED") && error.details["reason"] === "no_route") return undefined;
    throw error;
  }
}
