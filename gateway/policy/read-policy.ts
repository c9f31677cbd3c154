import { readFile } from "node:fs/promises";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import type { PolicyText } from "./policy-file.ts";

/** Where the policy file is, and whether it has to be there. */
export interface PolicyPlace {
  /** Absolute. */
  readonly policyFile: string;
  /** Whether the configuration names it, so that it must exist. */
  readonly policyFileNamed: boolean;
}

/** Reads the policy file; undefined when there is none and none was named. A file that cannot be read is a Fault. */
export async function readPolicy({
  policyFile,
  policyFileNamed,
}: PolicyPlace): Promise<PolicyText | undefined> {
  try {
    return { name: policyFile, text: await readFile(policyFile, "utf8") };
  } catch (error) {
    if (errnoOf(error) === "ENOENT" && !policyFileNamed) return undefined;
    throw faultFromErrno(error, policyFile);
  }
}
