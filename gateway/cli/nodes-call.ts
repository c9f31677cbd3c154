import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { openGateway } from "./open-gateway.ts";
import { callOptions, callTool } from "./tool-call.ts";

/** `nodes call`: the same call as `tools call ALIAS__TOOL`, by the node's own name of the tool. */
export const nodesCall: CommandModule = {
  words: "nodes call",
  summary: "call a tool of a node by the node's own name of it",
  example: `fairlead nodes call devbox exec --args '{"command": ["uname", "-a"]}'`,
  args: [
    { name: "<node>", text: "alias, id, or a prefix of the id of at least 6 characters" },
    { name: "<tool>", text: "the tool's name on the node" },
  ],
  options: callOptions,
  callsNode: true,
  run: async (input, runtime) => {
    const alias = await resolveAlias(input.argument("node"), runtime);
    return await callTool(input, runtime, { name: `${alias}__${input.argument("tool")}` });
  },
};

async function resolveAlias(node: string, runtime: Parameters<typeof openGateway>[0]): Promise<string> {
  await using gateway = await openGateway(runtime);
  const answer = await gateway.client(Admin).getNode({ node }, { signal: runtime.signal });
  return answer.node?.alias ?? node;
}
