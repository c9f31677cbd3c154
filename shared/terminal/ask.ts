import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { Fault } from "../fault/fault.ts";
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

/** Asks a person at the terminal for a secret, which is not shown; `INVALID_ARGUMENT` for an empty one. */
export async function askSecret(
  runtime: Pick<Runtime, "input" | "signal">,
  question: string,
): Promise<string> {
  process.stderr.write(visibleText(question));
  // What is typed goes nowhere: the library would show it.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: runtime.input.bytes, output: nowhere, terminal: true });
  try {
    const answer = (await lines.question("", { signal: runtime.signal })).trim();
    if (answer !== "") return answer;
    throw new Fault("INVALID_ARGUMENT", "nothing was entered");
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}
