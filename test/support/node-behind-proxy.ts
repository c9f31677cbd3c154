import { type GatewayBehindProxy, startGatewayBehindProxy } from "./gateway-behind-proxy.ts";
import { type Program, spawnProgram } from "./spawn-program.ts";
import { startNode, type TestNode } from "./start-node.ts";
import { makeTempWorkspace, type TempWorkspace } from "./temp-workspace.ts";

/** A gateway, a proxy, and a node behind it that exports the writable workspace `app` and runs commands. */
export interface NodeBehindProxy extends GatewayBehindProxy {
  readonly workspace: TempWorkspace;
  readonly node: TestNode;
  /** A command of the gateway's command line that goes on while the test does something to it. */
  readonly start: (args: readonly string[]) => Program;
  /** Calls `exec` on the node, with a line for the shell. */
  readonly exec: (line: string, args?: readonly string[]) => Program;
}

/** Starts everything; the caller disposes it. */
export async function startNodeBehindProxy(): Promise<NodeBehindProxy> {
  await using stack = new AsyncDisposableStack();
  const kit = stack.use(await startGatewayBehindProxy());
  const workspace = stack.use(await makeTempWorkspace({ "MEMORY.md": "# Kept\n" }));
  const node = stack.use(
    await startNode({
      gateway: kit.gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    }),
  );
  const start = (args: readonly string[]): Program => spawnProgram(args, { home: kit.gateway.home });
  const owned = stack.move();
  return {
    ...kit,
    workspace,
    node,
    start,
    exec: (line, args = []) =>
      start(["tools", "call", "devbox__exec", "--args", JSON.stringify({ command: line }), ...args]),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * A line for the shell that says so many numbered lines on both streams, slowly, and ends with a status. Behind the line
 * `waitsAt` it waits until there is a file `go`.
 */
export function countingLine(lines: number, status: number, waitsAt = 0): string {
  const wait = `if [ $i = ${waitsAt} ]; then while [ ! -e go ]; do sleep 0.05; done; fi`;
  const say = 'echo "line $i"; echo "err $i" >&2';
  return `echo $$ > pid.txt; for i in $(seq 1 ${lines}); do ${say}; ${wait}; sleep 0.02; done; exit ${status}`;
}

/** What such a line says on one stream. */
export function countedLines(word: "line" | "err", lines: number): string {
  return Array.from({ length: lines }, (_, at) => `${word} ${at + 1}\n`).join("");
}

/** What a program said of such a line on standard error, between messages of its own. */
export function countedErrors(stderr: string): string {
  return stderr
    .split("\n")
    .filter((line) => line.startsWith("err "))
    .map((line) => `${line}\n`)
    .join("");
}
