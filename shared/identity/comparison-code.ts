import { createHash } from "node:crypto";
import type { Pin } from "./pin.ts";

/** What a comparison code is made of; each side takes its own view of it. */
export interface Compared {
  /** The pin of the gateway's authority. */
  readonly gateway: Pin;
  /** The pin of the machine's key. */
  readonly machine: Pin;
  /** The enrolment request's id, which the gateway draws at random after it has the machine's key. */
  readonly requestId: string;
}

/** No letters that are taken for digits. */
const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const length = 6;

/**
 * A short code that gateway and machine each make for themselves, such as `K7Q-M3X`: when people read the same on both
 * sides, both mean the same two keys. Nobody can look for a key with a wanted code, because the request's id is drawn
 * only once the key is known; so six letters of 30 bits are enough.
 */
export function comparisonCode({ gateway, machine, requestId }: Compared): string {
  const digest = createHash("sha256")
    .update(["fairlead comparison", gateway, machine, requestId].join("\n"))
    .digest();
  const text = Array.from({ length }, (_, index) => letters[(digest[index] ?? 0) & 31]).join("");
  return `${text.slice(0, length / 2)}-${text.slice(length / 2)}`;
}
