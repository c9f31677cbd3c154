import { spawn } from "node:child_process";
import { programFile } from "./program-file.ts";

/** What happens on the terminal. */
export interface Typed {
  /** Typed at the first question. */
  readonly answer?: string;
  /** Put behind the command, for the shell. */
  readonly redirect?: string;
  /** The first word of the command; `files` by default. */
  readonly command?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a command on a terminal of its own. */
export function onTerminal(
  home: string,
  args: readonly string[],
  { answer = "", redirect = "", command = "files", env = {} }: Typed,
): Promise<{ readonly code: number | null; readonly shown: string }> {
  const words = [process.execPath, programFile, command, ...args];
  const line = words.map((word) => `'${word.replaceAll("'", `'"'"'`)}'`).join(" ") + redirect;
  const child = spawn("/usr/bin/script", ["--quiet", "--return", "--command", line, "/dev/null"], {
    env: { PATH: process.env["PATH"], HOME: home, FAIRLEAD_HOME: home, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const seen = { shown: "", isAnswered: false };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    seen.shown += text;
    if (seen.isAnswered || !seen.shown.includes("[y/N]")) return;
    seen.isAnswered = true;
    child.stdin.write(`${answer}\n`);
  });
  return new Promise((resolve) => {
    child.once("close", (code) => resolve({ code, shown: seen.shown }));
  });
}
