import { Fault } from "../../shared/fault/fault.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { openRemoteFace } from "../serve/mcp/remote-face.ts";
import { openRenewedFace } from "../serve/mcp/renewed-face.ts";
import { serveMcpStdio } from "../serve/mcp/stdio.ts";
import { openGateway } from "./open-gateway.ts";

/** The `mcp` command. */
export const commands: readonly CommandModule[] = [
  {
    words: "mcp",
    summary: "an MCP server on standard streams for one session",
    example: "fairlead mcp --agent coder --workspace devbox:/app",
    options: [
      { flags: "--session <id>", text: "an open session" },
      { flags: "--agent <name>", text: "open a session of this agent, and close it at the end" },
      { flags: "--workspace <node:/ws>", text: "the workspace of the session that is opened" },
    ],
    run: serveSession,
  },
];

async function serveSession(input: CommandInput, runtime: Runtime): Promise<void> {
  const { session, isOwn } = await findSession(input, runtime);
  await using renewed = openRenewedFace(session, async () => {
    const gateway = await openGateway(runtime);
    return {
      face: openRemoteFace(gateway.client(Sessions), session),
      [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
    };
  });
  try {
    await serveMcpStdio(renewed.face, {
      input: process.stdin,
      output: process.stdout,
      version: runtime.version,
      clock: runtime.clock,
      signal: runtime.signal,
    });
  } finally {
    // Standard input that is still read would keep the process.
    process.stdin.destroy();
    if (isOwn) await closeSession(session, runtime);
  }
}

interface ServedSession {
  readonly session: string;
  /** Whether it was opened for this command. */
  readonly isOwn: boolean;
}

async function findSession(input: CommandInput, runtime: Runtime): Promise<ServedSession> {
  const named = input.text("session");
  const workspace = input.text("workspace");
  if ((named === undefined) === (workspace === undefined)) {
    throw new Fault("INVALID_ARGUMENT", "name either a session or a workspace", {
      hint: "fairlead mcp --session ID, or fairlead mcp --agent A --workspace NODE:/WS",
      details: { field: "session" },
    });
  }
  await using gateway = await openGateway(runtime);
  const sessions = gateway.client(Sessions);
  const { session } =
    named === undefined
      ? await sessions.open(
          { agent: input.text("agent") ?? "operator", workspace: workspace ?? "" },
          gateway.call(),
        )
      : await sessions.get({ session: named }, gateway.call());
  if (!session || session.state === "closed") {
    throw new Fault("NOT_FOUND", `the session ${named ?? ""} is closed`, { hint: "fairlead sessions ls" });
  }
  return { session: session.id, isOwn: named === undefined };
}

/** How long the end of the session may take, in milliseconds: the client has gone already. */
const closeMs = 1_000;

async function closeSession(session: string, runtime: Runtime): Promise<void> {
  try {
    await using gateway = await openGateway({ ...runtime, signal: AbortSignal.timeout(closeMs) });
    await gateway.client(Sessions).close({ session }, { deadlineMs: closeMs });
  } catch (error) {
    runtime.output.note(
      `the session ${session} stays open: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
