import { hostname } from "node:os";
import { digestOf, digestToBytes } from "../../../shared/content/digest.ts";

/** Smaller files are sent again from their begin: to ask what is kept of them would take as long. In bytes. */
export const resumableFromBytes: number = 1024 * 1024;

/** Under what a part of `target` is kept that comes from `source`: 32 hex digits, the same on every run. */
export function partKeyOf(source: string, target: string): string {
  return digestToBytes(digestOf(`${source}\0${target}`))
    .toString("hex")
    .slice(0, 32);
}

/** A place of this machine, told from the same place of another. */
export function hereOf(shown: string): string {
  return `${hostname()}\0${shown}`;
}
