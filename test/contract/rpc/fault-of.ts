import { Fault } from "../../../shared/fault/fault.ts";

/** The fault that `work` fails with; a work that succeeds, or fails otherwise, is an error. */
export async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof Fault) return error;
  throw new Error("no fault came", { cause: error });
}
