import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type Token } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

/** The `tokens` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "tokens ls",
    summary: "the API tokens, without their texts",
    example: "fairlead tokens ls",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const { tokens } = await gateway.client(Admin).listTokens({}, gateway.call());
      await runtime.output.result({ tokens: tokens.map(toJson) }, () => ({
        columns: ["ID", "OPENS", "CREATED", "LAST USE", "EXPIRES"],
        rows: tokens.map((token) => [
          token.id,
          opens(token),
          toTime(token.createdMs) ?? "",
          toTime(token.usedMs) ?? "never",
          toTime(token.expiresMs) ?? "never",
        ]),
        empty: "there is no token; make one with: fairlead tokens create --agent NAME",
      }));
    },
  },
  {
    words: "tokens create",
    summary: "make a token for an agent, a session or an administrator; its text is shown once",
    example: "fairlead tokens create --agent coder --ttl 30d",
    options: [
      { flags: "--agent <name>", text: "opens the sessions of this agent" },
      { flags: "--session <id>", text: "opens this session only" },
      { flags: "--role <role>", text: "administers the gateway from elsewhere: viewer, operator or admin" },
      { flags: "--user <name>", text: "the user that it acts for (default: you)" },
      { flags: "--ttl <time>", text: "how long it lives (default 90d)" },
    ],
    run: async (input, runtime) => {
      const [agent, session, role] = [input.text("agent"), input.text("session"), input.text("role")];
      if ([agent, session, role].filter((given) => given !== undefined).length !== 1) {
        throw new Fault(
          "INVALID_ARGUMENT",
          "a token opens an agent's sessions or one session, or gives a role",
          { hint: "give one of --agent, --session and --role", details: { field: "agent" } },
        );
      }
      await using gateway = await openGateway(runtime);
      const request = {
        agent: agent ?? "",
        session: session ?? "",
        role: role ?? "",
        user: input.text("user") ?? "",
        ttlMs: BigInt(input.durationMs("ttl") ?? 0),
      };
      const { token, text } = await gateway.client(Admin).createToken(request, gateway.call());
      if (!token) throw new Fault("INTERNAL", "the gateway answered without the token");
      await runtime.output.result({ ...toJson(token), token: text }, () => [text]);
      if (runtime.output.isTerminal) runtime.output.note("This is the only time it is shown.");
    },
  },
  {
    words: "tokens revoke",
    summary: "end a token",
    example: "fairlead tokens revoke 3f9c2a",
    args: [{ name: "<id>", text: "its id, or a prefix that fits one only" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { token } = await gateway.client(Admin).revokeToken({ id: input.argument("id") }, gateway.call());
      if (!token) throw new Fault("INTERNAL", "the gateway answered without the token");
      await runtime.output.result(toJson(token), () => [`token ${token.id} has ended`]);
    },
  },
];

function opens(token: Token): string {
  if (token.role !== "") return `the gateway as ${token.role}`;
  return token.session === "" ? `agent ${token.agent}` : `session ${token.session}`;
}

function toJson(token: Token): { readonly [key: string]: JsonValue } {
  return {
    id: token.id,
    agent: token.agent,
    session: token.session,
    role: token.role,
    user: token.user,
    usedAt: toTime(token.usedMs) ?? null,
    createdAt: toTime(token.createdMs),
    expiresAt: toTime(token.expiresMs),
  };
}
