import { Fault } from "../../shared/fault/fault.ts";

/** The fault that `work` fails with; a work that succeeds, or fails otherwise, is an error. */
export async function faultOf(work: Promise<unknown> | (() => unknown)): Promise<Fault> {
  let value: unknown;
  try {
    value = await (typeof work === "function" ? work() : work);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("no fault came", { cause: value });
}
