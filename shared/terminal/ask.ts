import { createInterface } from "node:readline/promises";
import { visibleText } from "../log/safe-text.ts";
import type { Runtime } from "./runtime.ts";

/** Asks a person at the terminal for yes or no; without a terminal on both ends nothing is asked and it is false. */
export async function confirm(
  runtime: Pick<Runtime, "input" | "output" | "signal">,
  question: string,
): Promise<boolean> {
  if (!runtime.input.isTerminal || !runtime.output.isErrorTerminal) return false;
  const lines = createInterface({ input: runtime.input.bytes, output: process.stderr });
  try {
    const answer = await lines.question(`${visibleText(question)} [y/N] `, { signal: runtime.signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}
