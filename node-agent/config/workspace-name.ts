import { isFault } from "../../shared/fault/fault.ts";
import { parseWorkspaceName } from "../../shared/names/alias.ts";

/** Whether `text` can name a workspace. */
export function isWorkspaceName(text: string): boolean {
  try {
    parseWorkspaceName(text);
    return true;
  } catch (error) {
    if (isFault(error, "INVALID_ARGUMENT")) return false;
    throw error;
  }
}
