import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { type Session, Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

/** The `sessions` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "sessions ls",
    summary: "hosted sessions",
    example: "fairlead sessions ls",
    options: [{ flags: "--all", text: "also closed ones" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { sessions } = await gateway.client(Sessions).list({ all: input.flag("all") }, gateway.call());
      await runtime.output.result({ sessions: sessions.map(toJson) }, () => ({
        columns: ["ID", "AGENT", "WORKSPACE", "STATE", "SINCE", "REASON"],
        rows: sessions.map((one) => [
          one.id,
          one.agent,
          one.workspace,
          toWords(one.state),
          toTime(one.sinceMs) ?? "",
          toWords(one.reason),
        ]),
        empty: "no session is open; open one with: fairlead sessions open --agent A --workspace NODE:/WS",
      }));
    },
  },
  {
    words: "sessions open",
    summary: "open a session of an agent on a workspace",
    example: "fairlead sessions open --agent coder --workspace devbox:/app",
    options: [
      { flags: "--agent <name>", text: "the agent (default operator)" },
      { flags: "--workspace <node:/ws>", text: "the workspace that the session is bound to" },
    ],
    run: async (input, runtime) => {
      const workspace = input.text("workspace");
      if (workspace === undefined) {
        throw new Fault("INVALID_ARGUMENT", "--workspace is missing", {
          hint: "fairlead workspaces ls shows what there is",
          details: { field: "workspace" },
        });
      }
      await using gateway = await openGateway(runtime);
      const request = { agent: input.text("agent") ?? "operator", workspace };
      const { session } = await gateway.client(Sessions).open(request, gateway.call());
      const shown = given(session);
      await runtime.output.result(toJson(shown), () => toLines(shown));
    },
  },
  {
    words: "sessions show",
    summary: "everything about one session",
    example: "fairlead sessions show 3f9c2a",
    args: [{ name: "<id>", text: "the session, or a prefix of its id that fits one only" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { session } = await gateway
        .client(Sessions)
        .get({ session: input.argument("id") }, gateway.call());
      const shown = given(session);
      await runtime.output.result(toJson(shown), () => toLines(shown));
    },
  },
  {
    words: "sessions close",
    summary: "end a session and everything it started",
    example: "fairlead sessions close 3f9c2a",
    args: [{ name: "<id>", text: "the session, or a prefix of its id that fits one only" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const sessions = gateway.client(Sessions);
      const found = given((await sessions.get({ session: input.argument("id") }, gateway.call())).session);
      const { session } = await sessions.close({ session: found.id }, gateway.call());
      const shown = given(session);
      await runtime.output.result(toJson(shown), () => [`${shown.id} is ${toWords(shown.state)}`]);
    },
  },
];

function given(session: Session | undefined): Session {
  if (session) return session;
  throw new Fault("INTERNAL", "the gateway answered without the session");
}

function toJson(session: Session): { readonly [key: string]: JsonValue } {
  return {
    id: session.id,
    agent: session.agent,
    workspace: session.workspace,
    state: session.state,
    reason: session.reason,
    since: toTime(session.sinceMs),
    snapshot: session.snapshot,
    surface: session.surface,
    openedAt: toTime(session.openedMs),
  };
}

function toLines(session: Session): readonly string[] {
  const reason = session.reason === "" ? "" : ` (${toWords(session.reason)})`;
  return [
    `id: ${session.id}`,
    `agent: ${session.agent}`,
    `workspace: ${session.workspace}`,
    `state: ${toWords(session.state)}${reason} since ${toTime(session.sinceMs) ?? "now"}`,
    `snapshot: ${session.snapshot}`,
    `surface: ${session.surface}`,
  ];
}
