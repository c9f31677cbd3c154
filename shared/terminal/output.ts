import type { Writable } from "node:stream";
import type { JsonValue } from "../fault/fault.ts";
import { safeJson, safeText, terminalText, visibleText } from "../log/safe-text.ts";

/** What people see of a result: lines, or a table. Cells are escaped and cut, lines are escaped. */
export type View = readonly string[] | TableView;

/** A table: on a terminal with a head, else one line a row with tabs between the cells. */
export interface TableView {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Columns whose cells are never cut: what is copied from them must be whole. */
  readonly whole?: readonly string[];
  /** Said on a terminal instead of a table without rows. */
  readonly empty?: string;
}

/** Where a command's results go. Progress and notes never meet them: those go to standard error. */
export interface Output {
  /** Whether `--json` was given. */
  readonly json: boolean;
  /** Whether standard output is a terminal. */
  readonly isTerminal: boolean;
  /** Whether standard error is a terminal: only then progress is shown. */
  readonly isErrorTerminal: boolean;
  /** Whether colours may be used. */
  readonly colors: boolean;
  /** The result: one JSON document, or what people see of it. Once a command. */
  result(value: JsonValue, view: () => View): Promise<void>;
  /** One thing of a stream: one JSON object a line, or lines for people. */
  event(value: JsonValue, view: () => readonly string[]): Promise<void>;
  /** Text of another machine for people: raw into a file or pipe, escaped on a terminal. */
  text(text: string): Promise<void>;
  /** Bytes, as they are; waits while the reader is slow. */
  bytes(chunk: Uint8Array): Promise<void>;
  /** A line for people on standard error. */
  note(line: string): void;
}

/** Where an output writes. */
export interface OutputOptions {
  readonly stdout: Writable & { isTTY?: boolean };
  readonly stderr: Writable & { isTTY?: boolean };
  readonly json: boolean;
  readonly noColor: boolean;
}

/** An output over two streams. */
export function createOutput(options: OutputOptions): Output {
  const { stdout, stderr, json } = options;
  const isTerminal = stdout.isTTY === true;
  const write = (data: string | Uint8Array): Promise<void> => writeAll(stdout, data);
  return {
    json,
    isTerminal,
    isErrorTerminal: stderr.isTTY === true,
    colors: isTerminal && !options.noColor,
    result: async (value, view) => {
      if (json) return await write(`${safeJson(JSON.stringify(value, null, isTerminal ? 2 : 0))}\n`);
      const shown = view();
      const lines =
        "rows" in shown ? await renderTable(shown, isTerminal && !options.noColor, isTerminal) : shown;
      return await writeLines(write, "rows" in shown ? lines : lines.map(visibleText));
    },
    event: async (value, view) =>
      json
        ? await write(`${safeJson(JSON.stringify(value))}\n`)
        : await writeLines(write, view().map(visibleText)),
    text: (text) => write(isTerminal ? terminalText(text) : text),
    bytes: write,
    note: (line) => void stderr.write(`${visibleText(line)}\n`),
  };
}

function writeLines(write: (text: string) => Promise<void>, lines: readonly string[]): Promise<void> {
  return lines.length === 0 ? Promise.resolve() : write(`${lines.join("\n")}\n`);
}

function writeAll(stream: Writable, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()));
  });
}

async function renderTable(table: TableView, colors: boolean, head: boolean): Promise<readonly string[]> {
  const isWhole = table.columns.map((name) => table.whole?.includes(name) === true);
  const rows = table.rows.map((row) =>
    row.map((cell, column) => (isWhole[column] === true ? visibleText(cell) : safeText(cell))),
  );
  if (!head) return rows.map((row) => row.join("\t"));
  if (rows.length === 0) return table.empty === undefined ? [] : [table.empty];
  const { default: Table } = await import("cli-table3");
  const none = Object.fromEntries(borders.map((name) => [name, ""]));
  const made = new Table({
    head: [...table.columns],
    chars: { ...none, middle: "  " },
    style: { "padding-left": 0, "padding-right": 0, head: colors ? ["bold"] : [], border: [] },
  });
  made.push(...rows);
  return made
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
}

const borders = [
  "top",
  "top-mid",
  "top-left",
  "top-right",
  "bottom",
  "bottom-mid",
  "bottom-left",
  "bottom-right",
  "left",
  "left-mid",
  "mid",
  "mid-mid",
  "right",
  "right-mid",
  "middle",
] as const;
