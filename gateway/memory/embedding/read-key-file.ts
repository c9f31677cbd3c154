import { readFile } from "node:fs/promises";
import { errnoOf } from "../../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../../shared/fault/fault.ts";

const field = "embeddings.apiKeyFile";
// What else it held would be refused by the way it is sent, and told in the refusal.
const keyShape = /^[\x21-\x7e]+$/;

/** The key in a file, without spaces and line ends around it; `INVALID_ARGUMENT` when there is none to be read. */
export async function readKeyFile(file: string): Promise<string> {
  const key = (await readText(file)).trim();
  if (keyShape.test(key)) return key;
  throw new Fault("INVALID_ARGUMENT", `${field} names a file that holds no key`, {
    hint: `write the key into ${file}, on one line and nothing else`,
    details: { field },
  });
}

/** The key of the environment as it is sent; `INVALID_ARGUMENT` when it cannot be one. */
export function checkGivenKey(given: string | undefined): string | undefined {
  const key = given?.trim();
  if (key === undefined || key === "" || keyShape.test(key)) return key || undefined;
  throw new Fault(
    "INVALID_ARGUMENT",
    "FAIRLEAD_EMBEDDINGS_KEY holds no key: it has characters that none has",
    {
      details: { field: "FAIRLEAD_EMBEDDINGS_KEY" },
    },
  );
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const errno = errnoOf(error) ?? "unknown";
    throw new Fault("INVALID_ARGUMENT", `${field} names a file that cannot be read: ${errno}`, {
      hint: `check that ${file} is there and readable`,
      details: { field, errno },
      cause: error,
    });
  }
}
