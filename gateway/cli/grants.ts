import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type StandingGrant } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

/** The `approvals grants` commands. */
export const grantCommands: readonly CommandModule[] = [
  {
    words: "approvals grants ls",
    summary: "what was allowed for a time, and is not asked again",
    example: "fairlead approvals grants ls",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const { grants } = await gateway.client(Admin).listGrants({}, gateway.call());
      await runtime.output.result({ grants: grants.map(toJson) }, () => ({
        columns: ["ID", "AGENT", "MAY", "PATH", "EXPIRES"],
        whole: ["PATH"],
        rows: grants.map((one) => [
          one.id,
          one.agent,
          one.kind.replace("_", " "),
          `${one.node}:/${one.workspace}/${one.requestedPath}`,
          toTime(one.expiresMs) ?? "",
        ]),
        empty: "nothing is allowed for longer; allow it with: fairlead approvals allow ID --always",
      }));
    },
  },
  {
    words: "approvals grants revoke",
    summary: "end a standing grant; the next time is asked again",
    example: "fairlead approvals grants revoke 3f9c2a",
    args: [{ name: "<id>", text: "the grant, or a prefix of its id that fits one only" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { grant } = await gateway.client(Admin).revokeGrant({ id: input.argument("id") }, gateway.call());
      if (!grant) throw new Fault("INTERNAL", "the gateway answered without the grant");
      await runtime.output.result({ ...toJson(grant), revoked: true }, () => [`${grant.id} has ended`]);
    },
  },
];

function toJson(grant: StandingGrant): { readonly [key: string]: JsonValue } {
  return {
    id: grant.id,
    agent: grant.agent,
    session: grant.session === "" ? null : grant.session,
    tool: grant.tool === "" ? null : grant.tool,
    node: grant.node,
    nodeId: grant.nodeId,
    workspace: grant.workspace,
    kind: grant.kind,
    requestedPath: grant.requestedPath,
    canonicalPath: grant.canonicalPath,
    createdAt: toTime(grant.createdMs) ?? null,
    expiresAt: toTime(grant.expiresMs) ?? null,
    approvalId: grant.approvalId,
    grantedBy: grant.grantedBy,
  };
}
