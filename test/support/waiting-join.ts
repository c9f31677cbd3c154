import { type Program, type SpawnOptions, spawnProgram } from "./spawn-program.ts";
import type { TestGateway } from "./start-gateway.ts";

/** A request as `nodes pending --json` lists it. */
export interface PendingRequest {
  readonly id: string;
  readonly command: string;
  readonly comparisonCode: string;
  readonly keyFingerprint: string;
  readonly hostName: string;
  readonly wishedName: string;
  readonly connected: boolean;
}

/** A refused join as `nodes pending --json` lists it. */
export interface RefusedEntry {
  readonly address: string;
  readonly code: string;
  readonly reason: string;
  readonly count: number;
  readonly lastSeenAt: string;
}

/** What waits at a gateway, and what it refused. */
export async function listPending(
  gateway: TestGateway,
): Promise<{ readonly requests: readonly PendingRequest[]; readonly refused: readonly RefusedEntry[] }> {
  return (await gateway.json(["nodes", "pending"])) as Awaited<ReturnType<typeof listPending>>;
}

/** What a join printed when it began to wait. */
export interface Waiting {
  readonly requestId: string;
  readonly comparisonCode: string;
  readonly command: string;
}

/** A `fairlead node join` that waits for an administrator. Disposing it ends the program. */
export type WaitingJoin = Program & Waiting;

/** Starts `fairlead node join` with a code that requires approval, and waits until it waits. The caller disposes it. */
export async function startWaitingJoin(
  code: string,
  options: SpawnOptions,
  args: readonly string[] = [],
): Promise<WaitingJoin> {
  await using stack = new AsyncDisposableStack();
  const program = stack.use(
    spawnProgram(["node", "join", "-", "--json", ...args], { ...options, stdin: code }),
  );
  const line = await program.waitForLine((text) => text.includes('"event":"waiting_for_approval"'));
  const { requestId, comparisonCode, command } = JSON.parse(line) as Waiting;
  stack.move();
  return { ...program, requestId, comparisonCode, command };
}
